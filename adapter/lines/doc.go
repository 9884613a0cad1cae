// Package lines cuts a stream into lines, as messages come over standard input and
// output: spec 2025-11-25, basic/transports, "stdio", and 2026-07-28,
// basic/transports/stdio.
//
// A line has a limit. One that is longer is read to its end, of which not more is
// kept than tells whose it was, and the next can be read. The package knows
// nothing of what the lines say.
package lines
