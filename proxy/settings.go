package proxy

import (
	"cmp"
	"crypto/tls"
	"time"
)

// Settings say what the proxy serves and what it bears. A zero limit or
// duration stands for its default.
type Settings struct {
	Routes []Route

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

	MaxBody        int // bytes of a request body; 4 MiB
	MaxHeader      int // bytes of a request's header; 16 KiB
	MaxDepth       int // nesting of a request's JSON; 64
	MaxConnections int // open connections; 65,536

	ReadTimeout  time.Duration // a whole request from its first byte; 30s
	WriteTimeout time.Duration // each write of an answer; 10s
	IdleTimeout  time.Duration // an idle connection; 2m

	// StreamAfter is how long a request may be silent before its answer
	// becomes a stream; 1s.
	StreamAfter time.Duration
	// KeepAlive is how long a stream may be silent; 15s.
	KeepAlive time.Duration

	TLS *tls.Config // nil serves plain HTTP
}

// Route is a path and the upstream that is served there.
type Route struct {
	Path     string // such as /mcp
	Upstream string
	// Forward names the client's headers that go upstream with its request,
	// beside Authorization.
	Forward []string
}

func (s Settings) withDefaults() Settings {
	s.MaxBody = cmp.Or(s.MaxBody, 4<<20)
	s.MaxHeader = cmp.Or(s.MaxHeader, 16<<10)
	s.MaxDepth = cmp.Or(s.MaxDepth, 64)
	s.MaxConnections = cmp.Or(s.MaxConnections, 1<<16)
	s.ReadTimeout = cmp.Or(s.ReadTimeout, 30*time.Second)
	s.WriteTimeout = cmp.Or(s.WriteTimeout, 10*time.Second)
	s.IdleTimeout = cmp.Or(s.IdleTimeout, 2*time.Minute)
	s.StreamAfter = cmp.Or(s.StreamAfter, time.Second)
	s.KeepAlive = cmp.Or(s.KeepAlive, 15*time.Second)
	if len(s.Hosts) == 0 {
		s.Hosts = []string{"localhost", "127.0.0.1", "[::1]"}
	}
	if len(s.Origins) == 0 {
		for _, host := range []string{"localhost", "127.0.0.1", "[::1]"} {
			s.Origins = append(s.Origins, "http://"+host+":*", "https://"+host+":*")
		}
	}
	return s
}
