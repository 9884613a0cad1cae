package legacy

import (
	"crypto/tls"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Settings are the limits and times of one Server. Every field must be set;
// the configuration holds the defaults.
type Settings struct {
	Name      string
	Transport Transport
	Command   *Command // with TransportStdio
	URL       string   // with the others
	Address   string   // host:port to connect to in place of the URL's; empty: that one
	Headers   []Field  // sent with every request; secrets

	ConnectTimeout time.Duration
	WriteTimeout   time.Duration // of one request's bytes
	PostTimeout    time.Duration // until a notification or an answer is acknowledged
	OpenTimeout    time.Duration // of a whole handshake
	StreamWait     time.Duration // how long opening a session waits for its GET stream to stand
	MaxMessage     int           // bytes of one JSON body or SSE event
	MaxLine        int           // bytes of one SSE line
	MaxDepth       int           // nesting of a message
	MaxIdleConns   int
	IdleConnTTL    time.Duration
	RetryMin       time.Duration // pause before a broken stream is opened again,
	RetryMax       time.Duration // doubling up to this
	MaxResumes     int           // attempts without an event in between

	MaxSessions  int           // overall
	MaxPerKey    int           // sessions of one key
	IdleTTL      time.Duration // a session without a use is deleted after this
	Queue        int           // calls that may wait for a session of one key
	QueueTimeout time.Duration
	CancelWait   time.Duration // that a server may take to stop a cancelled call, if it is less than half of QueueTimeout
	MaxOrphans   int           // input requests of one session that wait for a call
	OrphanTTL    time.Duration
	ToolsTTL     time.Duration // how long what tools/list said is believed

	Peers    Peers // the other replicas; nil: this one is alone
	Affinity bool  // the replicas share one session for each key, where the server gives out session ids

	QueueEligible bool // sessions.eligible: queue
	PushesOnGET   bool // known from the start; else learned

	ClientName    string // clientInfo of initialize, where the client sent none
	ClientVersion string
	IDPrefix      string // first part of every upstream request id and progress token; with Peers it is what they call this replica
	TLS           *tls.Config
}

// Field is one HTTP header field.
type Field struct{ Name, Value string }

// Credentials are header fields that a client's HTTP request brought for the
// upstream: Authorization and the configured ones, and those of its trace, which
// come last. They are secrets.
type Credentials []Field

// Lasting returns what is not about the one request: it may be used for another
// of the same caller, be compared, and be told to peers.
func (c Credentials) Lasting() Credentials {
	n := len(c)
	for n > 0 && IsTrace(c[n-1].Name) {
		n--
	}
	return c[:n:n]
}

// IsTrace reports whether a header field belongs to a request's trace.
func IsTrace(name string) bool {
	for _, field := range mcp.TraceFields {
		if strings.EqualFold(name, field) {
			return true
		}
	}
	return false
}
