package load_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// judge is a modern server that checks each request against the pages
// basic/index, basic/transports/streamable-http and basic/patterns/mrtr of the
// specification (2026-07-28).
type judge struct {
	t   *testing.T
	sse bool // answer with an event stream

	mu     sync.Mutex // guards what follows
	ids    map[string]bool
	parked map[string]json.RawMessage // params of the first round by request state
	spoil  func(answer string) string
}

type posted struct {
	JSONRPC string
	ID      json.RawMessage
	Method  string
	Params  map[string]json.RawMessage
}

func (j *judge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		j.t.Error(err)
	}
	var p posted
	if err := json.Unmarshal(body, &p); err != nil || p.JSONRPC != "2.0" {
		j.t.Errorf("body is no request: %v: %s", err, body)
	}
	j.headers(r, p)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ids[string(p.ID)] {
		j.t.Errorf("id %s came twice", p.ID)
	}
	j.ids[string(p.ID)] = true
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, p.ID, j.result(p))
	if j.spoil != nil {
		answer = j.spoil(answer)
	}
	if !j.sse {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, answer)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, ": keep-alive\n\n")
	w.(http.Flusher).Flush()
	fmt.Fprintf(w, "event: message\ndata: %s\n\n", answer)
}

func (j *judge) headers(r *http.Request, p posted) {
	want := map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": p.Method, "Mcp-Session-Id": "",
		"Mcp-Name": strings.Trim(string(p.Params["name"]), `"`),
	}
	for name, value := range want {
		if got := r.Header.Get(name); got != value {
			j.t.Errorf("%s: got %q, want %q", name, got, value)
		}
	}
	if r.Method != "POST" || r.URL.Path != "/mcp" || r.Host == "" {
		j.t.Errorf("got %s %s at %q", r.Method, r.URL.Path, r.Host)
	}
	var meta struct {
		Version      string                                  `json:"io.modelcontextprotocol/protocolVersion"`
		Info         struct{ Name, Version string }          `json:"io.modelcontextprotocol/clientInfo"`
		Capabilities map[string]map[string]map[string]string `json:"io.modelcontextprotocol/clientCapabilities"`
	}
	if err := json.Unmarshal(p.Params["_meta"], &meta); err != nil {
		j.t.Error(err)
	}
	if _, form := meta.Capabilities["elicitation"]["form"]; meta.Version != "2026-07-28" || meta.Info.Name == "" || meta.Info.Version == "" || !form {
		j.t.Errorf("_meta: got %s", p.Params["_meta"])
	}
}

// result is the result of one request, and parks the calls of ask.
func (j *judge) result(p posted) string {
	var arguments struct{ Text string }
	json.Unmarshal(p.Params["arguments"], &arguments)
	switch {
	case p.Method == "server/discover":
		return `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`
	case string(p.Params["name"]) == `"echo"`:
		return complete(arguments.Text)
	case p.Params["requestState"] == nil:
		if p.Params["inputResponses"] != nil {
			j.t.Error("the first round brings answers")
		}
		state := fmt.Sprintf("sealed-%d", len(j.parked))
		j.parked[state] = bytes.Clone(canonical(j.t, p.Params))
		return `{"resultType":"input_required","requestState":"` + state + `","inputRequests":{"elicitation-1":` +
			`{"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{"answer":{"type":"string"}}}}}}}`
	}
	var state string
	var answers map[string]struct {
		Action  string
		Content struct{ Answer string }
	}
	if err := json.Unmarshal(p.Params["requestState"], &state); err != nil {
		j.t.Error(err)
	}
	if err := json.Unmarshal(p.Params["inputResponses"], &answers); err != nil {
		j.t.Error(err)
	}
	delete(p.Params, "requestState")
	delete(p.Params, "inputResponses")
	if got := canonical(j.t, p.Params); !bytes.Equal(got, j.parked[state]) {
		j.t.Errorf("retry with state %q: got params %s, want %s", state, got, j.parked[state])
	}
	delete(j.parked, state)
	more := ""
	if string(p.Params["name"]) == `"large"` {
		more = string(wire.LargeText())
	}
	answer := answers["elicitation-1"]
	if len(answers) != 1 || answer.Action != "accept" {
		j.t.Errorf("answers: got %v", answers)
	}
	return complete(arguments.Text + "=" + answer.Content.Answer + more)
}

func complete(text string) string {
	return `{"content":[{"text":"` + text + `","type":"text"}],"resultType":"complete"}`
}

func canonical(t *testing.T, params map[string]json.RawMessage) json.RawMessage {
	text, err := json.Marshal(params)
	if err != nil {
		t.Error(err)
	}
	return text
}

func startJudge(t *testing.T, sse bool) (*judge, *load.Modern) {
	t.Helper()
	j := &judge{t: t, sse: sse, ids: map[string]bool{}, parked: map[string]json.RawMessage{}}
	server := httptest.NewServer(j)
	t.Cleanup(server.Close)
	client := load.NewModern(server.Listener.Addr().String(), "/mcp", 5)
	t.Cleanup(client.Close)
	return j, client
}

func TestModernCallsKeepToTheRevision(t *testing.T) {
	for name, sse := range map[string]bool{"plain answers": false, "event streams": true} {
		t.Run(name, func(t *testing.T) {
			_, client := startJudge(t, sse)
			if err := client.Discover(); err != nil {
				t.Errorf("discover: %v", err)
			}
			for range 2 {
				if err := client.Echo(); err != nil {
					t.Errorf("echo: %v", err)
				}
				if err := client.Ask(); err != nil {
					t.Errorf("ask: %v", err)
				}
			}
		})
	}
}

func TestModernParksManyAndResumesInAnyOrder(t *testing.T) {
	j, client := startJudge(t, false)
	var parked []load.Parked
	for range 5 {
		p, err := client.Park()
		if err != nil {
			t.Fatal(err)
		}
		parked = append(parked, p)
	}
	for _, i := range []int{3, 0, 4, 2, 1} {
		if err := client.Resume(parked[i]); err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.parked) != 0 {
		t.Errorf("still parked: %v", j.parked)
	}
}

func TestModernSeesAWrongResult(t *testing.T) {
	j, client := startJudge(t, false)
	for name, spoil := range map[string]func(string) string{
		"another call's text":  func(a string) string { return strings.Replace(a, "bench-1", "bench-9", 1) },
		"an unfinished result": func(a string) string { return strings.Replace(a, "complete", "partial", 1) },
		"an error":             func(string) string { return `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"x"}}` },
	} {
		j.mu.Lock()
		j.spoil = spoil
		j.mu.Unlock()
		if err := client.Echo(); err == nil {
			t.Errorf("%s passed", name)
		}
	}
}

func TestModernComparesALargeResult(t *testing.T) {
	j, client := startJudge(t, true)
	for _, c := range []struct {
		name  string
		spoil func(string) string
		want  bool
	}{
		{"as it was sent", func(a string) string { return a }, true},
		{"two bytes changed places", func(a string) string { return a[:1<<20] + a[1<<20+1:1<<20+2] + a[1<<20:1<<20+1] + a[1<<20+2:] }, false},
		{"a piece missing", func(a string) string { return a[:5<<20] + a[5<<20+10:] }, false},
	} {
		p, err := client.ParkLarge()
		if err != nil {
			t.Fatal(err)
		}
		j.mu.Lock()
		j.spoil = c.spoil
		j.mu.Unlock()
		if err := client.Resume(p); (err == nil) != c.want {
			t.Errorf("%s: got %v", c.name, err)
		}
		j.mu.Lock()
		j.spoil = nil
		j.mu.Unlock()
	}
}

func TestSpreadRetriesAtTheNextReplica(t *testing.T) {
	j := &judge{t: t, ids: map[string]bool{}, parked: map[string]json.RawMessage{}}
	var addrs, seen []string
	for i := range 3 {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			j.mu.Lock()
			seen = append(seen, fmt.Sprint(i, " ", r.Header.Get("Mcp-Name")))
			j.ids = map[string]bool{} // each replica has a client of its own, which counts for itself
			j.mu.Unlock()
			j.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		addrs = append(addrs, server.Listener.Addr().String())
	}
	client := load.NewSpread(addrs, "/mcp", 5)
	defer client.Close()
	for _, call := range []func() error{client.Echo, client.Ask, client.Echo} {
		if err := call(); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"2 echo", "2 ask", "0 ask", "2 echo"}; !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
}
