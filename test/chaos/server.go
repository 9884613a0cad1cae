package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is a legacy MCP server (revision 2025-11-25). Over Streamable HTTP it
// gives out session ids; under /resumable its streams carry event ids, under
// /plain they do not. Over stdio, see pipes.go, it is what processes connect
// with.
type Server struct {
	// Address is where it listens.
	Address string
	// Socket is the path of the socket that processes connect with.
	Socket string
	Ledger *Ledger

	http  *http.Server
	pipes net.Listener
	stop  context.CancelFunc
	ctx   context.Context
	work  sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	sessions map[string]*session
	opened   int
	streams  int
	running  int // executions that have not ended
}

type session struct {
	id        string
	path      string
	get       *stream
	streams   map[string]*stream
	calls     map[string]*execution // by raw request id
	used      map[string]bool       // raw ids of calls that there have been
	questions map[string]*question  // by raw id
	asked     int
	last      time.Time // when it was used
	keepers   []string  // the replicas that opened it and had its event stream, one after the other
	open      int       // requests and streams that stand
	ended     bool
}

// orphanTTL is how long the server keeps a session that nobody uses: for longer
// than a request state is good, which somebody may still come back with after
// its owner was killed.
const orphanTTL = parkTTL + 5*time.Second

// message is a JSON-RPC message of the client.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// NewServer starts a server. dir is where its socket is.
func NewServer(dir string) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{
		Address: listener.Addr().String(), Ledger: NewLedger(),
		conns: map[net.Conn]struct{}{}, sessions: map[string]*session{},
		Socket: filepath.Join(dir, "server.sock"),
	}
	if s.pipes, err = net.Listen("unix", s.Socket); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.http = &http.Server{Handler: s, ConnState: s.connState, BaseContext: func(net.Listener) context.Context { return s.ctx }}
	s.work.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.Ledger.Break("legacy server: %v", err)
		}
	})
	s.work.Go(s.takeProcesses)
	s.work.Go(s.expire)
	return s, nil
}

// Close ends everything and returns when nothing is left.
func (s *Server) Close() {
	s.stop()
	_ = s.http.Close() // the listener's error is of no use here
	s.hangUp()
	s.work.Wait()
}

func (s *Server) connState(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.conns[c] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, c)
	}
}

// Left is what there is of connections, sessions and executions.
func (s *Server) Left() (conns, sessions, running int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns), len(s.sessions), s.running
}

// Opened is how many sessions there ever were.
func (s *Server) Opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// expire ends the sessions that nobody has used for orphanTTL.
func (s *Server) expire() {
	tick := time.NewTicker(orphanTTL / 8)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-tick.C:
			s.mu.Lock()
			for _, session := range s.sessions {
				if session.open == 0 && now.Sub(session.last) > orphanTTL {
					s.endLocked(session)
				}
			}
			s.mu.Unlock()
		}
	}
}

// endLocked ends a session with all that runs on it.
func (s *Server) endLocked(session *session) {
	delete(s.sessions, session.id)
	session.ended = true
	session.get.end()
	for _, x := range session.calls {
		x.cancel()
	}
}

// use finds the session that a request names, and keeps it until done.
func (s *Server) use(w http.ResponseWriter, r *http.Request) (found *session, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found = s.sessions[r.Header.Get("Mcp-Session-Id")]
	if found == nil || found.path != r.URL.Path {
		http.Error(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`, http.StatusNotFound)
		return nil, nil
	}
	found.open++
	return found, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		found.open--
		found.last = time.Now()
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != resumable && r.URL.Path != plain {
		http.NotFound(w, r)
		return
	}
	switch r.Method {
	case http.MethodPost:
		s.post(w, r)
	case http.MethodGet:
		s.get(w, r)
	case http.MethodDelete:
		if found, done := s.use(w, r); found != nil {
			done()
			s.mu.Lock()
			s.endLocked(found)
			s.mu.Unlock()
			w.WriteHeader(http.StatusNoContent)
		}
	default:
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
	}
}

func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if m.Method == "initialize" {
		s.initialize(w, r, &m)
		return
	}
	found, done := s.use(w, r)
	if found == nil {
		return
	}
	defer done()
	switch {
	case m.Method == "" && m.ID != nil:
		s.answer(found, &m)
		w.WriteHeader(http.StatusAccepted)
	case m.ID == nil:
		if m.Method == "notifications/cancelled" {
			s.cancelled(found, m.Params)
		}
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "tools/list":
		reply(w, m.ID, s.tools(r.URL.Path))
	case m.Method == "tools/call":
		s.call(w, r, found, &m)
	default: // ping, logging/setLevel
		reply(w, m.ID, `{}`)
	}
}

func reply(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result) // who asked may be gone
}

func (s *Server) initialize(w http.ResponseWriter, r *http.Request, m *message) {
	s.mu.Lock()
	s.opened++
	session := &session{
		id: "session" + strconv.Itoa(s.opened), path: r.URL.Path, get: newStream("get", false, superseded),
		streams: map[string]*stream{}, calls: map[string]*execution{}, questions: map[string]*question{}, used: map[string]bool{}, last: time.Now(),
	}
	session.keptBy(r)
	s.sessions[session.id] = session
	s.mu.Unlock()
	w.Header().Set("Mcp-Session-Id", session.id)
	reply(w, m.ID, welcome)
}

// welcome is the result of initialize.
const welcome = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"chaos","version":"1"}}`

func (s *Server) tools(path string) string {
	tool := func(t Tool, annotations string) string {
		return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"},"annotations":{%s}}`, t, annotations)
	}
	if path == resumable {
		return `{"tools":[` + tool(Resumable, "") + `]}`
	}
	return `{"tools":[` + strings.Join([]string{
		tool(Idempotent, `"idempotentHint":true`), tool(ReadOnly, `"readOnlyHint":true`), tool(Unsafe, ""),
	}, ",") + `]}`
}

// replicaHeader is a header field in which a replica names its process.
const replicaHeader = "Chaos-Replica"

// keptBy notes which replica has the session. Server.mu is held.
func (s *session) keptBy(r *http.Request) {
	if process := r.Header.Get(replicaHeader); len(s.keepers) == 0 || s.keepers[len(s.keepers)-1] != process {
		s.keepers = append(s.keepers, process)
	}
}

// get serves a session's own stream, or resumes that of a request.
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	found, done := s.use(w, r)
	if found == nil {
		return
	}
	defer done()
	id := r.Header.Get("Last-Event-ID")
	if id == "" {
		s.mu.Lock()
		found.keptBy(r)
		s.mu.Unlock()
		connection, ok := found.get.connect(false)
		if ok {
			found.get.serve(r.Context(), w, connection, 0)
		}
		return
	}
	name, next, ok := position(id)
	s.mu.Lock()
	resumed := found.streams[name]
	s.mu.Unlock()
	if !ok || resumed == nil {
		http.Error(w, "Invalid event ID format", http.StatusBadRequest)
		return
	}
	if run := resumed.run; run != nil { // it may have ended meanwhile
		s.Ledger.Note(run, func(run *Run) { run.resumed++ })
	}
	connection, ok := resumed.connect(true)
	if run := resumed.run; run != nil {
		s.Ledger.Trace(run.key, "server: the stream of request %s is asked for after %s: %v", run.request, id, ok)
	}
	if !ok {
		http.Error(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Conflict: Stream already has an active connection"}}`, http.StatusConflict)
		return
	}
	resumed.serve(r.Context(), w, connection, next)
}
