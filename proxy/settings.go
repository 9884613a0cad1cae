package proxy

import (
	"crypto/tls"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/dialect"
)

// Settings say what the proxy serves and what it bears. Every limit and
// duration must be set; the configuration holds the defaults.
type Settings struct {
	Routes []Route
	// Dialects are those that clients may speak; nil for MRTR alone.
	Dialects *dialect.Set

	// Origins are the values of Origin that may call, such as
	// https://app.example or http://localhost:* (any port); * admits all.
	// Empty admits the local machine's. Requests without Origin, which
	// browsers do not send, pass.
	Origins []string
	// Hosts are the names that the Host header may have, with or without a
	// port; * admits all. Empty admits the local machine's names.
	Hosts []string

	// PrincipalHeader is the header in which a trusted proxy in front says who
	// is calling; empty when there is none.
	PrincipalHeader string

	MaxBody        int // bytes of a request body
	MaxHeader      int // bytes of a request's header
	MaxDepth       int // nesting of a request's JSON
	MaxConnections int // open connections; 0 for no limit of our own

	ReadTimeout  time.Duration // a whole request from its first byte
	WriteTimeout time.Duration // each write of an answer
	IdleTimeout  time.Duration // an idle connection

	// StreamAfter is how long a request may be silent before its answer
	// becomes a stream.
	StreamAfter time.Duration
	// KeepAlive is how long a stream may be silent.
	KeepAlive time.Duration

	TLS *tls.Config // nil serves plain HTTP
}

// Route is a path and the upstream that is served there.
type Route struct {
	Path     string // such as /mcp
	Upstream string
	// Dialect is what a request is of that neither says so nor shows it; empty for
	// MRTR.
	Dialect string
	// Forward names the client's headers that go upstream with its request,
	// beside Authorization.
	Forward []string
}

// local are the names of the machine itself.
var local = []string{"localhost", "127.0.0.1", "[::1]"}

// places returns the hosts and origins that are served.
func (s Settings) places() (hosts, origins []string) {
	hosts, origins = s.Hosts, s.Origins
	if len(hosts) == 0 {
		hosts = local
	}
	if len(origins) == 0 {
		for _, host := range local {
			origins = append(origins, "http://"+host+":*", "https://"+host+":*")
		}
	}
	return hosts, origins
}
