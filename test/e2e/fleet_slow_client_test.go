package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// TestHopSlowClient: a client that does not read at another replica slows its
// own stream and nobody else's: calls of the same two replicas go on, and the
// slow one loses its call.
func TestHopSlowClient(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	flooding, ended := newGate(t), make(chan struct{})
	server.Tool("flood", func(c *rawserver.Call) {
		c.Ask("elicitation/create", question("name"))
		c.Log("info", "first")
		<-flooding
		text := strings.Repeat("x", 256<<10)
		for range 200 {
			c.Log("info", text)
		}
		<-c.Context().Done()
		close(ended)
	})
	server.Tool("greet", func(c *rawserver.Call) {
		c.Text("greet " + c.Ask("elicitation/create", question("name")).Content("name"))
	})
	h := StartFleet(t, Options{Upstream: to(server), Config: "stream: {buffer: 4}"})
	owner, other := h.Replica(0), h.Replica(1)
	first := owner.Send(t, CallTool("flood", nil, Level("info")))
	first.Asks(t, "elicitation-1")
	m := RetryOf(first, ada)
	conn, err := net.Dial("tcp", strings.TrimPrefix(other.Base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	request, err := http.NewRequest(http.MethodPost, other.URL, strings.NewReader(m.Body()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = m.Header
	if err := request.Write(conn); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		t.Fatal(err)
	}
	close(flooding) // and nothing is read for now
	for range 10 {
		call := owner.Send(t, CallTool("greet", nil))
		call.Asks(t, "elicitation-1")
		if got := other.Retry(t, call, ada).Text(t); got != "greet Ada" {
			t.Errorf("got %q", got)
		}
	}
	receive(t, "end of the call", ended)
	rest, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(rest), `"slow_client"`) {
		t.Errorf("the stream ends with %s, want the error slow_client", rest[max(0, len(rest)-300):])
	}
}
