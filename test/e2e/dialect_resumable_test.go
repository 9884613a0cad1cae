package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// "Transport-agnostic Resumable Requests", SEP-975.

const (
	// longTrip is the request of the source's example. Its progress token is what a
	// client must give that wants to hear of progress.
	longTrip   = `{"jsonrpc": "2.0", "id": 123, "method": "tools/call", "params": {"name": "trip", "_meta": {"progressToken": "p"}}}`
	tripPolicy = `{"jsonrpc": "2.0", "method": "notifications/requests/resumePolicy", "params": {"requestId": 123, "resumeToken": "<abc>", "maxWait": 300}}`
	tripStatus = `{"jsonrpc": "2.0", "id": 124, "method": "requests/getStatus", "params": {"requestId": 123, "resumeToken": "<abc>"}}`
	tripResume = `{"jsonrpc": "2.0", "id": 123, "method": "requests/resume", "params": {"resumeToken": "<abc>"}}`
	tripCancel = `{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 123, "resumeToken": "<abc>"}}`
	tripDone   = `{"jsonrpc": "2.0", "id": 123, "result": {"content": [{"type": "text", "text": "there"}]}}`
	tripWhere  = `{"message": "Where to?", "requestedSchema": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}}`
	tripAsks   = `{"jsonrpc": "2.0", "id": "<ask>", "method": "elicitation/create", "params": ` + tripWhere + `}`
	tripAnswer = `{"jsonrpc": "2.0", "id": "<ask>", "result": {"action": "accept", "content": {"to": "there"}}}`
)

func tripProgress(n string) string {
	return `{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "p", "progress": ` + n + `, "total": 9}}`
}

func tripStands(status, pending string) string {
	return `{"jsonrpc": "2.0", "id": 124, "result": {"status": "` + status + `", "pendingMessages": ` + pending + `, "maxWait": 300}}`
}

// trips is a tool that does what it is told: a number is progress, ? asks where to
// go, ! arrives there.
type trips chan string

func (do trips) on(s *rawserver.Server) {
	s.Tool("trip", func(c *rawserver.Call) {
		to := "there"
		for {
			var step string
			select {
			case step = <-do:
			case <-c.Cancelled():
				return
			case <-c.Context().Done():
				return
			}
			switch step {
			case "?":
				to = c.Ask("elicitation/create", tripWhere).Content("to")
			case "!":
				c.Text(to)
				return
			default:
				if more := step[1:]; more != "" { // a long way to say it
					c.Notify("notifications/progress", fmt.Sprintf(`{"progressToken": %s, "progress": %s, "total": 9, "message": %q}`, c.Token(), step[:1], more))
					continue
				}
				c.Progress(float64(step[0]-'0'), 9)
			}
		}
	})
}

// traveller is a client of the dialect.
type traveller struct {
	t      *testing.T
	header http.Header
	known  map[string]string // texts that nobody can foresee
}

func newTraveller(t *testing.T) *traveller {
	return &traveller{t: t, header: bare("resumable"), known: map[string]string{}}
}

// body is a message with the texts that are known by now.
func (c *traveller) body(text string) string {
	for name, known := range c.known {
		text = strings.ReplaceAll(text, name, known)
	}
	return text
}

func (c *traveller) open(g Target, text string) *Stream {
	c.t.Helper()
	return g.OpenText(c.t, c.body(text), c.header)
}

// hears compares what comes next on a stream, field by field.
func (c *traveller) hears(s *Stream, wants ...string) {
	c.t.Helper()
	for _, want := range wants {
		if got := s.Next().Raw; !alike(parse(c.t, []byte(want)), parse(c.t, got), c.known) {
			c.t.Fatalf("heard %s\nwant %s", got, want)
		}
	}
}

// ends checks that a stream ends, after what it has said.
func (c *traveller) ends(s *Stream) {
	c.t.Helper()
	for {
		f, err := s.Frame()
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil || !f.Comment:
			c.t.Fatalf("heard %s, %v, want the end", f.Data, err)
		}
	}
}

// loses the connection of the only stream. What is said before that is known may
// be lost in the balancer between.
func (c *traveller) loses(h *Holdfast, s *Stream) {
	c.t.Helper()
	s.Close()
	h.WaitMetric(c.t, "holdfast_http_streams_open", 0)
}

// posts a message that gets no answer.
func (c *traveller) posts(g Target, text string) {
	c.t.Helper()
	if reply := Post(c.t, g.URL, c.body(text), c.header); reply.Status != http.StatusAccepted || len(reply.Body) != 0 {
		c.t.Fatalf("%s is answered with HTTP %d %s", text, reply.Status, reply.Body)
	}
}

// refused posts a message that must be refused.
func (c *traveller) refused(g Target, text string, status, code int, reason string) {
	c.t.Helper()
	Post(c.t, g.URL, c.body(text), c.header).Fails(c.t, status, code, reason)
}

// awaits asks for the status of the request until it is this.
func (c *traveller) awaits(g Target, want string) {
	c.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var got []byte
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		reply := Post(c.t, g.URL, c.body(tripStatus), c.header)
		if got = reply.Body; alike(parse(c.t, []byte(want)), parse(c.t, got), c.known) {
			return
		}
	}
	c.t.Fatalf("the status is %s, want %s", got, want)
}

// The sequence of the source: the policy, messages, a lost connection, the status,
// and all that was missed; with questions, which it has no picture of.
func TestResumableExample(t *testing.T) {
	t.Parallel()
	var tools sync.Map // by server
	overEach(t, ", dialect: resumable", "", func(s *rawserver.Server) {
		do := make(trips, 16)
		tools.Store(s, do)
		do.on(s)
	}, func(t *testing.T, server *rawserver.Server, h *Holdfast) {
		of, _ := tools.Load(server)
		do := of.(trips)
		c := newTraveller(t)
		c.header = bare("") // the upstream's own dialect
		s := c.open(h.Target, longTrip)
		c.hears(s, tripPolicy)
		do <- "1"
		c.hears(s, tripProgress("1"))
		c.loses(h, s)
		do <- "2"
		do <- "3"
		c.awaits(h.Target, tripStands("working", "2"))
		c.awaits(h.Target, tripStands("working", "2")) // it has fetched nothing
		s = c.open(h.Target, tripResume)
		c.hears(s, tripProgress("2"), tripProgress("3"))
		do <- "?"
		c.hears(s, tripAsks)
		first := c.known["<ask>"]
		c.posts(h.Target, tripAnswer)
		do <- "4"
		c.hears(s, tripProgress("4"))
		c.loses(h, s)
		do <- "?"
		do <- "5"
		c.awaits(h.Target, tripStands("input_required", "1"))
		s = c.open(h.Target, tripResume)
		c.hears(s, tripAsks)
		if c.known["<ask>"] == first {
			t.Error("two questions have one id")
		}
		c.posts(h.Target, tripAnswer)
		c.posts(h.Target, tripAnswer) // it may come twice
		c.hears(s, tripProgress("5"))
		c.loses(h, s)
		do <- "!"
		c.awaits(h.Target, tripStands("completed", "0"))
		for range 2 { // the answer itself may be lost, too
			s = c.open(h.Target, tripResume)
			if reply := s.Reply(); !sameJSON(t, reply.Messages[0].Raw, []byte(tripDone)) {
				t.Errorf("got %s", reply.Body)
			}
		}
		if n := server.ToolCalls("trip"); n != 1 {
			t.Errorf("the tool was called %d times", n)
		}
	})
}

// Each message comes to another replica.
func TestResumableAcrossReplicas(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	do := make(trips, 16)
	do.on(server)
	h := StartFleet(t, Options{Upstream: to(server)})
	a, b, d := h.Replica(0).Target, h.Replica(1).Target, h.Replica(2).Target
	c := newTraveller(t)
	s := c.open(a, longTrip)
	c.hears(s, tripPolicy)
	c.loses(h, s)
	do <- "1"
	c.awaits(b, tripStands("working", "1"))
	s = c.open(b, tripResume)
	c.hears(s, tripProgress("1"))
	do <- "?"
	c.hears(s, tripAsks)
	c.posts(d, tripAnswer)
	do <- "2"
	c.hears(s, tripProgress("2"))
	c.loses(h, s)
	do <- "3"
	c.awaits(a, tripStands("working", "1"))
	s = c.open(d, tripResume)
	c.hears(s, tripProgress("3"))
	newest := c.open(b, tripResume) // somewhere a connection hangs: the newest one counts
	c.ends(s)
	do <- "4"
	do <- "!"
	c.hears(newest, tripProgress("4"), tripDone)
	c.ends(newest)
	if n := server.ToolCalls("trip"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

// Whoever has neither token nor id of the request has nothing of it.
func TestResumableRefusals(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	do := make(trips, 16)
	do.on(server)
	h := Start(t, Options{Upstream: to(server)})
	c := newTraveller(t)
	c.header.Set("Authorization", "Bearer mine")
	s := c.open(h.Target, longTrip)
	c.hears(s, tripPolicy)
	do <- "?"
	c.hears(s, tripAsks)
	other := &traveller{t: t, header: c.header.Clone(), known: c.known}
	other.header.Set("Authorization", "Bearer other")
	for _, text := range []string{tripStatus, tripResume, tripCancel, tripAnswer} {
		other.refused(h.Target, text, http.StatusBadRequest, -32602, "state_foreign")
		damaged := strings.ReplaceAll(strings.ReplaceAll(text, "<abc>", "<abc>x"), "<ask>", "<ask>x")
		c.refused(h.Target, damaged, http.StatusBadRequest, -32602, "state_invalid")
		if text != tripAnswer {
			c.refused(h.Target, strings.ReplaceAll(text, "123", `"123"`), http.StatusBadRequest, -32602, "state_foreign")
			c.refused(h.Target, strings.ReplaceAll(text, `"resumeToken": "<abc>"`, `"resumeToken": 1`), http.StatusBadRequest, -32602, "invalid_params")
		}
	}
	c.refused(h.Target, strings.ReplaceAll(tripStatus, "123", "null"), http.StatusBadRequest, -32602, "invalid_params")
	c.refused(h.Target, `{"jsonrpc": "2.0", "id": 1, "result": {}}`, http.StatusBadRequest, -32600, "response")
	// A cancellation without a token might be meant for another client's request.
	c.posts(h.Target, `{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 123}}`)
	c.awaits(h.Target, tripStands("input_required", "0"))
	c.posts(h.Target, tripAnswer)
	do <- "!"
	c.hears(s, tripDone)
}

// A client may cancel, connected or not.
func TestResumableCancellation(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	do := make(trips, 16)
	do.on(server)
	h := Start(t, Options{Upstream: to(server)})
	for i, connected := range []bool{true, false} {
		c := newTraveller(t)
		s := c.open(h.Target, longTrip)
		c.hears(s, tripPolicy)
		if !connected {
			c.loses(h, s)
		}
		c.posts(h.Target, tripCancel)
		c.posts(h.Target, tripCancel) // it may come twice
		if connected {
			c.ends(s)
		}
		server.WaitCount("notifications/cancelled", i+1)
		c.awaits(h.Target, tripStands("cancelled", "0"))
	}
}

// Who stays away too long has the request cancelled. The status is a word of the
// client's, which lets it wait longer.
func TestResumableMaxWait(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	do := make(trips, 16)
	do.on(server)
	h := Start(t, Options{Upstream: to(server), Config: "dialects: {resumable: {max_wait: 2s}}"})
	short := func(text string) string { return strings.ReplaceAll(text, `"maxWait": 300`, `"maxWait": 2`) }
	c := newTraveller(t)
	s := c.open(h.Target, longTrip)
	c.hears(s, short(tripPolicy))
	c.loses(h, s)
	tick := time.NewTicker(time.Second) // nothing happens while the client is waited for
	defer tick.Stop()
	for range 4 {
		<-tick.C
		c.awaits(h.Target, short(tripStands("working", "0")))
	}
	server.WaitCount("notifications/cancelled", 1)
	reply := c.open(h.Target, tripResume).Reply()
	if reply.Error == nil || reply.Error.Reason() != "state_expired" || string(reply.ID) != "123" {
		t.Errorf("got %s", reply.Body)
	}
}

// What is not kept is told as a gap.
func TestResumableOverflow(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	do := make(trips, 16)
	do.on(server)
	h := Start(t, Options{Upstream: to(server), Config: "dialects: {resumable: {max_messages: 2}}"})
	c := newTraveller(t)
	s := c.open(h.Target, longTrip)
	c.hears(s, tripPolicy)
	c.loses(h, s)
	for _, step := range []string{"1", "2", "3", "4", "5", "!"} {
		do <- step
	}
	c.awaits(h.Target, tripStands("completed", "5"))
	s = c.open(h.Target, tripResume)
	c.hears(s, `{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "warning", "logger": "holdfast", "data": {
		"reason": "overflow", "dropped": 3, "message": "notifications were dropped here: more of them waited than are kept"}}}`,
		tripProgress("4"), tripProgress("5"), tripDone)
}

// So is what is not kept because all calls together have too much.
func TestResumableOverflowOfAll(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	do := make(trips, 16)
	do.on(server)
	h := Start(t, Options{Upstream: to(server), Config: "dialects: {resumable: {max_total_bytes: 64KiB}}"})
	c := newTraveller(t)
	s := c.open(h.Target, longTrip)
	c.hears(s, tripPolicy)
	c.loses(h, s)
	do <- "1"
	c.awaits(h.Target, tripStands("working", "1"))
	settles(t, h, "holdfast_undelivered_bytes", "something", func(n float64) bool { return n > 0 })
	do <- "2" + strings.Repeat(" and on", 10<<10) // less than max_bytes
	c.awaits(h.Target, tripStands("working", "2"))
	reaches(t, h, "holdfast_undelivered_bytes", 0)
	do <- "3"
	do <- "!"
	c.awaits(h.Target, tripStands("completed", "3"))
	s = c.open(h.Target, tripResume)
	c.hears(s, `{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "warning", "logger": "holdfast", "data": {
		"reason": "overflow", "dropped": 2, "message": "notifications were dropped here: more of them waited than are kept"}}}`,
		tripProgress("3"), tripDone)
}

// The form of the request tells the dialect: its methods, and the capability that
// a client declares; a modern client may, too, and is served so.
func TestResumableByCapability(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	do := make(trips, 16)
	do.on(server)
	h := Start(t, Options{Upstream: to(server)})
	const declared = `{"elicitation":{},"resumableRequests":{}}`
	c := newTraveller(t)
	c.header = bare("")
	s := c.open(h.Target, strings.Replace(longTrip, `"progressToken"`, `"io.modelcontextprotocol/clientCapabilities": `+declared+`, "progressToken"`, 1))
	c.hears(s, tripPolicy)
	c.loses(h, s)
	do <- "!"
	c.awaits(h.Target, tripStands("completed", "0"))

	s = h.Open(t, CallTool("trip", nil, Caps(declared), ID(123)))
	c.hears(s, tripPolicy)
	do <- "?"
	c.hears(s, tripAsks)
	c.posts(h.Target, tripAnswer)
	do <- "!"
	c.hears(s, tripDone)
	for _, m := range server.Received("initialize") {
		if strings.Contains(string(m.Params), "resumableRequests") {
			t.Errorf("the server was greeted with %s", m.Params)
		}
	}
	var found struct {
		Extensions map[string]map[string]any
	}
	capabilities, err := json.Marshal(h.Send(t, Request("server/discover", nil)).Completes(t)["capabilities"])
	if err == nil {
		err = json.Unmarshal(capabilities, &found)
	}
	if _, ok := found.Extensions["dev.holdfast/dialects"]["resumable"]; err != nil || !ok {
		t.Errorf("server/discover declares %s (%v)", capabilities, err)
	}
}

// Prompts and resources may take their time as well; lists are answered as ever.
func TestResumablePrompt(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Handle("prompts/get", func(c *rawserver.Call) {
		c.Result(`{"messages":[{"role":"user","content":{"type":"text","text":"` + c.Ask("elicitation/create", tripWhere).Content("to") + `"}}]}`)
	})
	h := Start(t, Options{Upstream: to(server)})
	c := newTraveller(t)
	s := c.open(h.Target, `{"jsonrpc": "2.0", "id": 123, "method": "prompts/get", "params": {"name": "x"}}`)
	c.hears(s, tripPolicy, tripAsks)
	c.posts(h.Target, tripAnswer)
	c.hears(s, `{"jsonrpc": "2.0", "id": 123, "result": {"messages": [{"role": "user", "content": {"type": "text", "text": "there"}}]}}`)
}

// The owner is killed: what the server's stream still has comes again from there.
func TestResumableOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	server := rawserver.New(t, rawserver.Settings{Prime: true}) // or there is no event to go on from
	do := make(trips, 16)
	do.on(server)
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty})
	c := newTraveller(t)
	s := c.open(h.Replica(0).Target, longTrip)
	c.hears(s, tripPolicy)
	c.loses(h, s)
	do <- "1"
	do <- "?"
	c.awaits(h.Replica(1).Target, tripStands("input_required", "2"))
	h.Replica(0).Kill()
	s = c.open(h.Replica(1).Target, tripResume)
	c.hears(s, tripProgress("1"), tripAsks)
	c.posts(h.Replica(2).Target, tripAnswer)
	do <- "!"
	c.hears(s, tripDone)
	if n := server.ToolCalls("trip"); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

// Where the stream cannot be gone on with, a harmless call runs again, and any
// other is lost, which the client is told.
func TestResumableOfALostStream(t *testing.T) {
	t.Parallel()
	server := rawserver.New(t, rawserver.Settings{NoEventIDs: true})
	var again sync.Once
	begun := make(chan struct{}, 3)
	tool := func(c *rawserver.Call) {
		begun <- struct{}{}
		first := false
		again.Do(func() { first = true })
		if first || c.Argument("b") == "" {
			<-c.Context().Done()
			return
		}
		c.Progress(1, 9)
		c.Text("there")
	}
	server.Declare("trip", `{"name":"trip","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, tool)
	server.Declare("harm", `{"name":"harm","inputSchema":{"type":"object"}}`, tool)
	h := StartFleet(t, Options{Upstream: to(server), Config: hasty})
	harmless, harmful := newTraveller(t), newTraveller(t)
	const args = `"arguments": {"b": "c"}, `
	s := harmless.open(h.Replica(0).Target, strings.Replace(longTrip, `"_meta"`, args+`"_meta"`, 1))
	harmless.hears(s, tripPolicy)
	w := harmful.open(h.Replica(0).Target, strings.Replace(longTrip, `"trip"`, `"harm"`, 1))
	harmful.hears(w, tripPolicy)
	receive(t, "call", begun)
	receive(t, "call", begun)
	h.Replica(0).Kill()
	harmless.hears(harmless.open(h.Replica(1).Target, tripResume), tripProgress("1"), tripDone)
	reply := harmful.open(h.Replica(2).Target, tripResume).Reply()
	if reply.Error == nil || reply.Error.Reason() != "call_lost" || string(reply.ID) != "123" {
		t.Errorf("got %s", reply.Body)
	}
	harmful.awaits(h.Replica(1).Target, tripStands("failed", "0"))
}
