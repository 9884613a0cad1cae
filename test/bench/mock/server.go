package mock

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
)

// Server is the mock. The zero value offers the GET stream.
type Server struct {
	// NoStream makes GET answer 405, as servers without a stream of their own do.
	NoStream bool

	// Meeting is how many callers of meet wait for each other; zero is one.
	Meeting int

	// Keep is how many calls of ask go on, at most, while nobody has their streams,
	// as those of servers with an event store do: GET with Last-Event-ID goes on with
	// the stream. Zero is none: a call ends with its stream.
	Keep int

	met      meeting
	holding  holding
	sessions sync.Map // string -> struct{}
	session  atomic.Uint64
	open     questions
	stats    Stats

	wg    sync.WaitGroup
	mu    sync.Mutex // guards what follows
	conns map[net.Conn]struct{}
	ended bool
}

// Stats counts what the server has seen since it began. GET /stats returns it.
type Stats struct {
	Sessions atomic.Int64 // opened by initialize
	Echoed   atomic.Int64 // calls of echo
	Asked    atomic.Int64 // calls that ask
	Answered atomic.Int64 // questions answered
	Left     atomic.Int64 // of them, those whose stream was closed before the answer, and that were not kept
	Streams  atomic.Int64 // of calls that ask, open now
	Resumed  atomic.Int64 // streams that a client has gone on with
	Stray    atomic.Int64 // answers that no question waited for
	Together atomic.Int64 // most callers of meet that have waited for each other at once
}

// Stats returns the server's counters, which go on counting.
func (s *Server) Stats() *Stats { return &s.stats }

// AppendJSON appends the counters as a JSON object; waiting is the number of
// calls that have no answer yet.
func (s *Stats) AppendJSON(dst []byte) []byte {
	asked, answered, left := s.Asked.Load(), s.Answered.Load(), s.Left.Load()
	for i, c := range []struct {
		name string
		n    int64
	}{
		{"sessions", s.Sessions.Load()}, {"echoed", s.Echoed.Load()}, {"asked", asked}, {"answered", answered},
		{"left", left}, {"stray", s.Stray.Load()}, {"together", s.Together.Load()}, {"waiting", asked - answered - left},
		{"streams", s.Streams.Load()}, {"resumed", s.Resumed.Load()},
	} {
		dst = append(dst, "{,"[min(i, 1)])
		dst = strconv.AppendQuote(dst, c.name)
		dst = append(dst, ':')
		dst = strconv.AppendInt(dst, c.n, 10)
	}
	return append(dst, '}')
}

// Serve takes connections from l until [Server.Close], and returns nil then.
// It closes l.
func (s *Server) Serve(l net.Listener) error {
	s.open.most = int64(s.Keep)
	s.wg.Add(1)
	defer s.wg.Done()
	defer l.Close()
	for {
		nc, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("accept: %w", err)
		}
		if !s.add(nc) {
			nc.Close()
			return nil
		}
	}
}

// add starts serving a connection unless the server has ended.
func (s *Server) add(nc net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	if s.conns == nil {
		s.conns = make(map[net.Conn]struct{})
	}
	s.conns[nc] = struct{}{}
	s.wg.Go(func() {
		newConn(s, nc).serve()
		nc.Close()
		s.mu.Lock()
		delete(s.conns, nc)
		s.mu.Unlock()
	})
	return true
}

// Close closes l, which the server was given, and every connection, and
// returns when nothing of the server runs any more.
func (s *Server) Close(l net.Listener) {
	s.mu.Lock()
	s.ended = true
	l.Close()
	for nc := range s.conns {
		nc.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
	s.met.part()
	s.met.going.Wait()
}
