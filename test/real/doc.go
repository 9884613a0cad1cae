// Command real puts Holdfast in front of real legacy servers, unchanged from
// npm, and compares what a modern client gets with what a legacy client gets from
// the same server directly.
//
//	go run ./test/real     what `make real` calls
//
// Of @modelcontextprotocol/server-everything it uses every tool, prompt,
// resource, template and completion, over stdio, HTTP+SSE and Streamable HTTP.
// The plan ([tools], [prompts], [resources], [flows]) is played by pairs of
// clients, one on each side, all pairs at once: a pair is one client on each
// side with its own capabilities, because the server's tools depend on them.
// One pair has the official client of the tasks extension on Holdfast's side
// (official/tasks.mjs), which follows the tool that runs only as a task; a table
// says which official clients know tasks, and which do not.
//
// The other [servers] are commands, each tried with holdfast run: what it is, its
// four lists, and a call or a few that change nothing outside its home.
//
// Compared are results and errors, progress, log messages, updates, and what
// the server asked in the middle; what the modern revision adds is checked and
// taken off, what it took away is taken off the other side (revision.go). What
// differs by nature, as a time of day does, is masked; each mask has a reason,
// which is printed (masks.go).
//
// It prints tables of what is the same, what differs and how, and what is not
// covered and why. What differs is taken for Holdfast's fault until the table of
// servers says why it is the server's own. The exit code is 0 only when all that
// is covered is the same but for such faults, nothing that server-everything
// offers is missing from the plan, and no process is left over.
//
// It needs Node.js 20 or newer with npm, and Linux. The servers are installed
// once, into the user's cache; their install scripts do not run. What they and
// Holdfast wrote stays in out/.
package main
