package legacy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

// A server may ping before it answers initialize (spec 2025-11-25,
// basic/lifecycle, "Initialization"): the reply names the session, which the
// client knows only once that answer has begun.
func TestPingDuringTheHandshakeIsAnsweredOnTheSession(t *testing.T) {
	pong := make(chan string, 1)
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.Method == http.MethodDelete:
		case strings.Contains(string(body), `"initialize"`):
			id := jsonrpc.Get(body, "id")
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Mcp-Session-Id", "s1")
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n\n")
			w.(http.Flusher).Flush()
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}}\n\n", id)
		case string(jsonrpc.Get(body, "id")) == "7":
			pong <- r.Header.Get("Mcp-Session-Id")
			w.WriteHeader(http.StatusAccepted)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer ts.Close()
	s := newTestServer(t, testSettings(ts.URL))
	session, err := s.Acquire(t.Context(), &Key{Caps: capabilities(t, "{}")}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Return(false)
	if got := <-pong; got != "s1" {
		t.Errorf("the ping was answered on session %q, want s1", got)
	}
}
