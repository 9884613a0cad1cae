package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// lines is the one stream of a session over stdio: the standard input of a
// process, which test/fixture/pipe connects with the server.
type lines struct {
	mu   sync.Mutex
	conn net.Conn
}

// send implements voice. What a process that is gone is told is lost.
func (l *lines) send(data string, _ bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
	_, _ = l.conn.Write([]byte(data + "\n"))
}

// end implements voice. The stream is not the execution's.
func (l *lines) end() {}

// takeProcesses serves the processes that connect.
func (s *Server) takeProcesses() {
	for {
		conn, err := s.pipes.Accept()
		if err != nil {
			return // closed
		}
		s.mu.Lock()
		if s.ctx.Err() != nil {
			s.mu.Unlock()
			_ = conn.Close() // nobody has spoken on it
			continue
		}
		s.conns[conn] = struct{}{}
		s.work.Go(func() { s.serveProcess(conn) })
		s.mu.Unlock()
	}
}

// hangUp ends all processes.
func (s *Server) hangUp() {
	_ = s.pipes.Close() // it removes the socket, too
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close() // whoever reads it ends
	}
}

// serveProcess serves a session from its beginning to its end, which is that of
// its process. One that only holds the connection has none.
func (s *Server) serveProcess(conn net.Conn) {
	var session *session
	voice := &lines{conn: conn}
	in := bufio.NewScanner(conn)
	in.Buffer(nil, 1<<20)
	in.Split(wholeLines)
	for in.Scan() {
		var m message
		if err := json.Unmarshal(in.Bytes(), &m); err != nil {
			s.Ledger.Break("a process was sent what is no JSON: %v", err)
			continue
		}
		if m.Method == "initialize" && session == nil {
			session = s.welcome()
		}
		if session == nil {
			s.Ledger.Break("a process was sent %q before initialize", m.Method)
			continue
		}
		s.hear(session, voice, &m)
	}
	s.mu.Lock()
	if session != nil {
		s.endLocked(session)
	}
	delete(s.conns, conn)
	s.mu.Unlock()
	_ = conn.Close() // it is at its end
}

// wholeLines is bufio.ScanLines without the piece of a line that the input of a
// replica that was killed may end with.
func wholeLines(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF {
		return len(data), nil, nil
	}
	return 0, nil, nil
}

// welcome begins the session of a process. It does not expire: it is used until
// its process ends.
func (s *Server) welcome() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	session := &session{
		id: "process" + strconv.Itoa(s.opened), get: newStream("get", false, superseded), open: 1,
		calls: map[string]*execution{}, questions: map[string]*question{}, used: map[string]bool{}, last: time.Now(),
	}
	s.sessions[session.id] = session
	return session
}

// hear acts on what a process was sent.
func (s *Server) hear(on *session, voice *lines, m *message) {
	result := `{}` // of ping, logging/setLevel
	switch {
	case m.Method == "" && m.ID != nil:
		s.answer(on, m)
		return
	case m.ID == nil:
		if m.Method == "notifications/cancelled" {
			s.cancelled(on, m.Params)
		}
		return
	case m.Method == "tools/call":
		if _, err := s.begin(on, m, voice); err != nil {
			s.Ledger.Break("a process was sent a call with params that cannot be: %v", err)
		}
		return
	case m.Method == "initialize":
		result = welcome
	case m.Method == "tools/list":
		result = s.tools("")
	}
	voice.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result), false)
}
