// Package child runs one command as a child process whose standard input and
// output carry lines: spec 2025-11-25, basic/transports, "stdio".
//
// Start begins it, in a process group of its own. One goroutine reads its lines
// with Next; any may send with Write or TryWrite. What it says on standard error
// goes to the log line by line, and the end of it is kept for whoever asks how
// the process has ended. Close ends it for sure, with all that it has started in
// its group: nothing is left over when it returns. Where this process is killed,
// the kernel ends the child, and a Guard what the child has started.
//
// The package knows nothing of MCP, of sessions, or of when a process is to be
// started again.
package child
