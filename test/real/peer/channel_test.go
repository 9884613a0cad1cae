package peer_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

// asServer makes the test's binary the server of TestSpawn.
const asServer = "PEER_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		fmt.Println("a banner, which is no message")
		s := &oneStream{out: os.Stdout}
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			s.take(lines.Bytes())
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// oneStream is a legacy server with one stream for all of a session. It asks for
// roots as soon as it is initialized, and in the middle of tools/call for a
// form; tools/call die ends it, and tools/call later answers with the next request.
type oneStream struct {
	mu     sync.Mutex // guards out and waiting
	out    io.Writer
	prefix string // of a message
	wait   any    // id of the tools/call that waits for its answer
	late   any    // id of a tools/call later
}

func (s *oneStream) say(m map[string]any) {
	m["jsonrpc"] = "2.0"
	text, _ := json.Marshal(m) // nothing in it that does not marshal
	_, _ = fmt.Fprintf(s.out, "%s%s\n\n", s.prefix, text)
	if flusher, ok := s.out.(http.Flusher); ok {
		flusher.Flush()
	}
}

func (s *oneStream) take(text []byte) {
	var m struct {
		ID     any
		Method string
		Params struct{ Name string }
		Result any
	}
	if json.Unmarshal(text, &m) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late != nil {
		s.say(map[string]any{"id": s.late, "result": map[string]any{"late": true}})
		s.late = nil
	}
	switch {
	case m.Method == "notifications/initialized":
		s.say(map[string]any{"id": "roots", "method": "roots/list"})
	case m.Params.Name == "die":
		_, _ = fmt.Fprintln(os.Stderr, "the last word")
		os.Exit(3)
	case m.Params.Name == "later":
		s.late = m.ID
	case m.Method == "tools/call":
		s.wait = m.ID
		s.say(map[string]any{"method": "notifications/resources/updated", "params": map[string]any{"uri": "u"}})
		s.say(map[string]any{"id": "form", "method": "elicitation/create", "params": map[string]any{"message": "m"}})
	case m.ID == "form":
		s.say(map[string]any{"id": s.wait, "result": m.Result})
	case m.Method != "" && m.ID != nil:
		s.say(map[string]any{"id": m.ID, "result": map[string]any{}})
	}
}

// useOneStream does all that a session of one stream has to do.
func useOneStream(t *testing.T, c *peer.Legacy) {
	t.Helper()
	l, err := c.Listen(t.Context(), peer.Filter{Resources: []string{"u"}})
	if err != nil {
		t.Fatal(err)
	}
	o, err := c.Call(t.Context(), peer.Request{Method: "tools/call", Answers: peer.Answers{"elicitation/create": map[string]any{"action": "decline"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := o.Result, any(map[string]any{"action": "decline"}); !reflect.DeepEqual(got, want) {
		t.Errorf("result: got %v, want the answer %v", got, want)
	}
	if got, want := fmt.Sprint(<-l.Updates), "{notifications/resources/updated map[uri:u]}"; got != want {
		t.Errorf("update: got %s, want %s", got, want)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got, want := fmt.Sprint(c.Asked()), "[{roots/list map[]} {elicitation/create map[message:m]}]"; got != want {
		t.Errorf("asked: got %s, want %s", got, want)
	}
}

func TestSpawn(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spawn := func() *peer.Legacy {
		c, err := peer.Spawn(t.Context(), peer.Command{Path: program, Env: []string{asServer + "=1"}, Dir: t.TempDir()}, identity)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := spawn()
	useOneStream(t, c)
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	c = spawn()
	if _, err := c.Call(t.Context(), peer.Request{Method: "tools/list"}); err != nil { // what it asks by itself is answered then
		t.Fatal(err)
	}
	if _, err := c.Call(t.Context(), peer.Request{Method: "tools/call", Params: map[string]any{"name": "die"}}); !errors.Is(err, peer.ErrEnded) || !strings.Contains(err.Error(), "the last word") {
		t.Errorf("a call of a command that dies: %v, want its end and its last word", err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestConnectSSE(t *testing.T) {
	server := &oneStream{prefix: "data: "}
	standing := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			if err != nil || r.URL.String() != "/post?n=1" {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			w.WriteHeader(http.StatusAccepted)
			server.take(body)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		server.mu.Lock()
		server.out = w
		_, _ = fmt.Fprint(w, "event: endpoint\ndata: /post?n=1\n\n")
		w.(http.Flusher).Flush()
		server.mu.Unlock()
		<-r.Context().Done()
		close(standing)
	}))
	defer web.Close()
	c, err := peer.ConnectSSE(t.Context(), web.URL+"/sse", identity)
	if err != nil {
		t.Fatal(err)
	}
	useOneStream(t, c)
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	<-standing
}

// A call that was given up leaves nothing to the next.
func TestLateAnswerIsDropped(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := peer.Spawn(t.Context(), peer.Command{Path: program, Env: []string{asServer + "=1"}, Dir: t.TempDir()}, identity)
	if err != nil {
		t.Fatal(err)
	}
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Call(given, peer.Request{Method: "tools/call", Params: map[string]any{"name": "later"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that is given up: %v", err)
	}
	o, err := c.Call(t.Context(), peer.Request{Method: "tools/list"})
	if err != nil || !reflect.DeepEqual(o.Result, any(map[string]any{})) {
		t.Errorf("the next call: %v, %v, want its own answer", o, err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
