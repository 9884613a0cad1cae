package peer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

// session is a small legacy server: it asks for roots on the GET stream as soon
// as that is open, and for a form in the middle of tools/call. On
// resources/subscribe it sends an update.
type session struct {
	push    chan string // what the GET stream sends
	answers chan map[string]any
	mu      sync.Mutex // guards what follows
	seen    []string   // methods
}

func (s *session) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	flush := func() { _ = http.NewResponseController(w).Flush() }
	switch r.Method {
	case http.MethodGet:
		w.Header().Set("Content-Type", "text/event-stream")
		flush()
		for {
			select {
			case text := <-s.push:
				_, _ = fmt.Fprintf(w, "id: 1\ndata: %s\n\n", text)
				flush()
			case <-r.Context().Done():
				return
			}
		}
	case http.MethodDelete:
		s.note("DELETE " + r.Header.Get("Mcp-Session-Id"))
		return
	}
	var m map[string]any
	if json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	method, isRequest := m["method"].(string)
	s.note(method)
	switch {
	case !isRequest:
		w.WriteHeader(http.StatusAccepted)
		s.answers <- m
	case method == "notifications/initialized":
		w.WriteHeader(http.StatusAccepted)
		s.push <- `{"jsonrpc":"2.0","id":"r","method":"roots/list"}`
	case method == "tools/call":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"e\",\"method\":\"elicitation/create\",\"params\":{\"message\":\"m\"}}\n\n")
		flush()
		answer := <-s.answers
		text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m["id"], "result": answer["result"]})
		_, _ = fmt.Fprintf(w, "data: %s\n\n", text)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "one")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%v,"result":{}}`, m["id"])
		if method == "resources/subscribe" {
			s.push <- `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u"}}`
		}
	}
}

func (s *session) note(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, method)
}

func TestLegacySession(t *testing.T) {
	s := &session{push: make(chan string, 4), answers: make(chan map[string]any, 1)}
	server := httptest.NewServer(s)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, err := peer.Connect(ctx, server.URL, identity)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := (<-s.answers)["result"], map[string]any{"roots": []any{}}; !reflect.DeepEqual(got, want) {
		t.Errorf("answer to roots/list: got %v, want %v", got, want)
	}
	o, err := c.Call(ctx, peer.Request{Method: "tools/call", Answers: peer.Answers{"elicitation/create": map[string]any{"action": "decline"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := o.Result, any(map[string]any{"action": "decline"}); !reflect.DeepEqual(got, want) {
		t.Errorf("result: got %v, want the answer %v", got, want)
	}
	if got, want := fmt.Sprint(c.Asked()), "[{roots/list map[]} {elicitation/create map[message:m]}]"; got != want {
		t.Errorf("asked: got %s, want %s", got, want)
	}
	l, err := c.Listen(ctx, peer.Filter{Resources: []string{"u"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(<-l.Updates), "{notifications/resources/updated map[uri:u]}"; got != want {
		t.Errorf("update: got %s, want %s", got, want)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
	want := "initialize notifications/initialized  tools/call  resources/subscribe resources/unsubscribe DELETE one"
	if got := strings.Join(s.seen, " "); got != want {
		t.Errorf("the server saw %q, want %q", got, want)
	}
}
