package main

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What becomes of the connection that a stream has when the stream is asked for
// again: servers differ.
const (
	superseded = "superseded" // the old one is ended
	silent     = "silent"     // it stays open, and nothing comes on it any more
	conflict   = "conflict"   // the new one is answered 409 while the old one stands
)

var superiors = []string{superseded, silent, conflict}

// stream is the event stream of one request, or of a session's GET.
type stream struct {
	name      string
	ids       bool // events carry ids, and all are kept
	supersede string
	run       *Run // whose it is; nil: of a session's GET

	mu      sync.Mutex
	events  []string
	done    bool
	owner   int // which connection gets the events
	last    int // how many connections there were
	open    int // connections that stand
	changed chan struct{}
}

func newStream(name string, ids bool, supersede string) *stream {
	return &stream{name: name, ids: ids, supersede: supersede, changed: make(chan struct{})}
}

func (s *stream) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// send adds an event. Without ids it is lost when nobody is connected.
func (s *stream) send(data string, final bool) {
	s.update(func() {
		if !s.done && (s.ids || s.open > 0) {
			s.events = append(s.events, data)
		}
		s.done = s.done || final
	})
}

// stands reports whether somebody is connected.
func (s *stream) stands() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open > 0 && !s.done
}

func (s *stream) end() { s.update(func() { s.done = true }) }

// connect takes the stream for a connection; false when another has it.
func (s *stream) connect(again bool) (connection int, ok bool) {
	s.update(func() {
		if again && s.supersede == conflict && s.open > 0 {
			return
		}
		ok = true
		s.open++
		s.last++
		s.owner = s.last
		connection = s.last
	})
	return connection, ok
}

func (s *stream) eventID(i int) string { return s.name + "_" + strconv.Itoa(i) }

// position is the inverse of eventID: the stream's name and the index after it.
func position(id string) (name string, next int, ok bool) {
	name, index, ok := strings.Cut(id, "_")
	i, err := strconv.Atoi(index)
	return name, i + 1, ok && err == nil && i >= -1
}

// serve writes the events from index i on until the stream has ended, the
// client has gone, or another connection has taken the stream.
func (s *stream) serve(ctx context.Context, w http.ResponseWriter, connection, i int) {
	defer s.update(func() { s.open-- })
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	control := http.NewResponseController(w)
	write := func(text string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(10 * time.Second))
		if _, err := w.Write([]byte(text)); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	first := ":\n\n"
	if s.ids { // SEP-1699: an id before the first event
		first = "id: " + s.eventID(i-1) + "\ndata:\n\n"
	}
	if !write(first) {
		return
	}
	for {
		s.mu.Lock()
		changed, over := s.changed, s.done && i >= len(s.events)
		mine := s.owner == connection
		var text string
		if mine && i < len(s.events) {
			if s.ids {
				text = "id: " + s.eventID(i) + "\n"
			}
			text += "event: message\ndata: " + s.events[i] + "\n\n"
			i++
		}
		s.mu.Unlock()
		switch {
		case text != "":
			if !write(text) {
				return
			}
			continue
		case over && mine, !mine && s.supersede == superseded:
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
