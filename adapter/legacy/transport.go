package legacy

import (
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy/child"
)

// Transport is how a server is spoken to.
type Transport uint8

const (
	TransportAuto       Transport = iota // Streamable HTTP or HTTP+SSE, as the server answers
	TransportStreamable                  // spec 2025-11-25, basic/transports, "Streamable HTTP"
	TransportSSE                         // spec 2024-11-05, basic/transports, "HTTP with SSE"
	TransportStdio                       // same, "stdio"
)

// String is the word that the configuration uses.
func (t Transport) String() string {
	return [...]string{"auto", "streamable-http", "http+sse", "stdio"}[t]
}

// Command is what a server over stdio is started with, one process for each
// session. Its environment is exactly Env.
type Command struct {
	Path    string // a path, or a name that is looked up in Env's PATH, else in this process's
	Args    []string
	Env     []string     // NAME=value; may hold secrets
	Dir     string       // "": this process's
	MaxLine int          // bytes of one message
	Guard   *child.Guard // ends what is left where this process is killed; may be nil

	// Grace is how long a process may take to end once its standard input is
	// closed, and again after SIGTERM.
	Grace time.Duration
	// RestartMin is the pause before a process is started again when the last two
	// have ended by themselves, doubling up to RestartMax with each more. One that
	// has served for RestartMax starts the count anew.
	RestartMin, RestartMax time.Duration
}

func (c *Command) child() *child.Command {
	return &child.Command{Path: c.Path, Args: c.Args, Env: c.Env, Dir: c.Dir, Grace: c.Grace, MaxLine: c.MaxLine, Guard: c.Guard}
}
