package e2e

import (
	"encoding/json"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// Trace contexts of the W3C, one for each round.
var traces = [...]map[string]string{
	{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=1", "baggage": "k=v"},
	{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01", "tracestate": "a=2,b=3", "baggage": "k=w"},
	{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-00", "tracestate": "c=4", "baggage": "l=x"},
}

func inHeader(trace map[string]string) func(*Message) {
	return func(m *Message) {
		for name, value := range trace {
			m.Header.Set(name, value)
		}
	}
}

func inMeta(trace map[string]string) func(*Message) {
	return func(m *Message) {
		for name, value := range trace {
			Meta(name, value)(m)
		}
	}
}

// TestTraceContext: the server sees the trace of each round: in the header of
// the request that the round brings it, and in _meta of the call. Each round
// comes to another replica than the one before.
func TestTraceContext(t *testing.T) {
	onlyStreamable(t, "it is about HTTP towards the server")
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) {
		for range 2 {
			c.Ask("elicitation/create", question("name"))
		}
		c.Text("done")
	})
	h := Start(t, Options{Upstream: to(server)})
	first := h.Send(t, CallTool("ask", nil, inHeader(traces[0]), inMeta(traces[1])))
	first.Asks(t, "elicitation-1")
	second := h.Retry(t, first, ada, inHeader(traces[1]))
	second.Asks(t, "elicitation-2")
	h.Retry(t, second, Answers{"elicitation-2": Accept("name", "Bea")}, inHeader(traces[2])).Completes(t)
	h.Stop()

	calls := posted(server, "tools/call")
	if len(calls) != 1 {
		t.Fatalf("%d calls, want 1", len(calls))
	}
	var answers []*rawserver.Record
	for _, r := range sent(server, "POST") {
		if r.Method() == "" {
			answers = append(answers, r)
		}
	}
	if len(answers) != 2 {
		t.Fatalf("%d answers, want 2", len(answers))
	}
	for i, r := range []*rawserver.Record{calls[0], answers[0], answers[1]} {
		for name, want := range traces[i] {
			if got := r.Header.Values(name); len(got) != 1 || got[0] != want {
				t.Errorf("round %d: the server sees %s %q, want %s", i+1, name, got, want)
			}
		}
	}
	for name, want := range traces[1] {
		var got string
		if err := json.Unmarshal(at(calls[0].Messages[0].Params, "_meta", name), &got); err != nil || got != want {
			t.Errorf("_meta has %s %q (%v), want %s", name, got, err, want)
		}
	}
	// What nobody asked for is no part of anybody's trace.
	for _, method := range []string{"GET", "DELETE"} {
		for _, r := range sent(server, method) {
			if got := r.Header.Get("traceparent"); got != "" {
				t.Errorf("%s has traceparent %s", method, got)
			}
		}
	}
}

// TestTraceContextOfATakeOver: likewise where the call goes on elsewhere.
func TestTraceContextOfATakeOver(t *testing.T) {
	onlyStreamable(t, "only event ids let a stream go on")
	t.Parallel()
	server := asking(t)
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty})
	first := h.Replica(0).Send(t, CallTool("greet", nil, inHeader(traces[0])))
	first.Asks(t, "elicitation-1")
	h.Replica(0).Kill()
	if got := h.Replica(1).Retry(t, first, ada, inHeader(traces[1])).Text(t); got != "greet Ada" {
		t.Errorf("got %q", got)
	}
	for _, r := range sent(server, "POST") {
		if r.Method() != "" {
			continue
		}
		if got := r.Header.Get("traceparent"); got != traces[1]["traceparent"] {
			t.Errorf("the answer has traceparent %q, want that of its own round", got)
		}
	}
}
