// Command real puts Holdfast in front of a real legacy server, the unchanged
// @modelcontextprotocol/server-everything from npm, uses every tool, prompt,
// resource, template and completion that it offers with a modern client, and
// compares what comes back with what a legacy client gets from the same server
// directly.
//
//	go run ./test/real     what `make real` calls
//
// The plan ([tools], [prompts], [resources], [flows]) is played by pairs of
// clients, one on each side, all pairs at once: a pair is one client on each
// side with its own capabilities, because the server's tools depend on them.
// Compared are results and errors, progress, log messages, updates, and what
// the server asked in the middle; what the modern revision adds is checked and
// taken off, what it took away is taken off the other side (revision.go). What
// differs by nature, as a time of day does, is masked; each mask has a reason,
// which is printed (masks.go).
//
// It prints a table of what is the same, what differs and how, and what is not
// covered and why. The exit code is 0 only when all that is covered is the
// same, and nothing that the server offers is missing from the plan.
//
// It needs Node.js 20 or newer with npm, and Linux. What the two servers wrote
// stays in out/.
package main
