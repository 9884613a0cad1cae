package stdio

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// TestProbe: the probe that the specification recommends finds a modern server,
// and a legacy client's handshake an error that says so.
func TestProbe(t *testing.T) {
	f := open(t)
	f.send(rpc("1", "server/discover", ""))
	m := f.next()
	if m.Result == nil || !slices.Equal(m.Result.SupportedVersions, []string{"2026-07-28"}) {
		t.Errorf("got %s", m.text)
	}
	f.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`)
	if m = f.next(); m.Error == nil || m.Error.Code != -32022 || !slices.Equal(m.Error.Data.Supported, []string{"2026-07-28"}) || !strings.Contains(m.Error.Message, "2026-07-28") {
		t.Errorf("initialize: got %s", m.text)
	}
	if n := f.raw.Count("initialize"); n != 1 {
		t.Errorf("the server got %d handshakes, want the one for the probe", n)
	}
}

// TestRefusals: what is refused over HTTP is refused here, and the next message
// is served.
func TestRefusals(t *testing.T) {
	f := open(t, func(s *Settings) { s.MaxDepth, s.MaxLine = 8, 4096 })
	f.raw.Tool("say", saying)
	deep := strings.Repeat("[", 9) + strings.Repeat("]", 9)
	noMeta := func(method string) string { return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{}}` }
	for name, test := range map[string]struct {
		text   string
		id     string
		code   int
		reason string
	}{
		"no JSON":               {`{"jsonrpc":`, "", -32700, ""},
		"a banner":              {`Hello, server!`, "", -32700, ""},
		"invalid UTF-8":         {"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"\xff\"}", "7", -32700, ""},
		"a batch":               {`[` + call("7", "say") + `]`, "", -32600, ""},
		"a name twice":          {`{"jsonrpc":"2.0","id":7,"id":7,"method":"tools/list","params":{` + meta + `}}`, "", -32600, ""},
		"too deep":              {rpc("7", "tools/call", `"name":"say","arguments":{"a":`+deep+`}`), "7", -32600, ""},
		"id null":               {call("null", "say"), "", -32600, ""},
		"id a fraction":         {call("1.5", "say"), "", -32600, ""},
		"no version of JSONRPC": {`{"id":7,"method":"tools/list","params":{` + meta + `}}`, "7", -32600, ""},
		"a response":            {`{"jsonrpc":"2.0","id":7,"result":{}}`, "", -32600, "response"},
		"a method that is none": {rpc("7", "tools/eat", ""), "7", -32601, "method_not_found"},
		"a legacy method":       {rpc("7", "logging/setLevel", ""), "7", -32601, "method_not_found"},
		"no _meta":              {noMeta("tools/list"), "7", -32602, "invalid_params"},
		"no capabilities": {`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
			"7", -32602, "invalid_params"},
		"another version":  {strings.Replace(call("7", "say"), "2026-07-28", "2099-01-01", 1), "7", -32022, ""},
		"no name":          {rpc("7", "tools/call", ""), "7", -32602, "invalid_params"},
		"a state of none":  {rpc("7", "tools/call", `"name":"say","requestState":"x"`), "7", -32602, "state_invalid"},
		"a line too long":  {rpc("7", "tools/call", `"name":"say","arguments":{"a":"`+strings.Repeat("x", 5000)+`"}`), "", -32600, "body_size"},
		"a far longer one": {strings.Repeat("x", 1<<20), "", -32600, "body_size"},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			f.send(test.text)
			f.next().fails(t, test.id, test.code, test.reason)
			f.send(call(`"after"`, "say"))
			if got := f.next().said(t); got != "said" {
				t.Errorf("then: got %q", got)
			}
		})
	}
	f.t = t
	for _, text := range []string{"", "  ", "\r", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, cancel("99"), cancel("{}")} {
		f.send(text)
	}
	f.send(call("8", "say") + "\r")
	if m := f.next(); string(m.ID) != "8" || m.said(t) != "said" {
		t.Errorf("after what is to be ignored: got %s", m.text)
	}
}

// TestRequestsRunBesideEachOther, and what they tell shares the one stream: each
// by its own progress token and id.
func TestRequestsRunBesideEachOther(t *testing.T) {
	f := open(t)
	hold := newGate(t)
	f.raw.Tool("hold", func(c *rawserver.Call) {
		c.Progress(1, 2)
		hold.holding(c)
	})
	f.raw.Tool("say", saying)
	f.send(withToken(call(`"a"`, "hold"), `"token-a"`))
	if m := f.next(); m.Method != "notifications/progress" || string(m.Params.ProgressToken) != `"token-a"` {
		t.Fatalf("got %s", m.text)
	}
	f.send(withToken(call("1", "hold"), "1"))
	if m := f.next(); m.Method != "notifications/progress" || string(m.Params.ProgressToken) != "1" || m.Params.Progress != 1 {
		t.Fatalf("got %s", m.text)
	}
	f.send(call(`"1"`, "say")) // another id than 1
	if m := f.next(); string(m.ID) != `"1"` || m.said(t) != "said" {
		t.Fatalf("got %s", m.text)
	}
	hold.open()
	got := []string{string(f.next().ID), string(f.next().ID)}
	if slices.Sort(got); !slices.Equal(got, []string{`"a"`, "1"}) {
		t.Errorf("got the responses to %q", got)
	}
}

// TestManyRequests: all are answered, each once.
func TestManyRequests(t *testing.T) {
	f := open(t, func(s *Settings) { s.MaxRequests = 200 })
	f.raw.Tool("say", saying)
	const n = 200
	for i := range n {
		f.send(call(fmt.Sprint(i), "say"))
	}
	seen := map[string]bool{}
	for range n {
		m := f.next()
		if m.said(t) != "said" || seen[string(m.ID)] {
			t.Fatalf("got %s", m.text)
		}
		seen[string(m.ID)] = true
	}
}

// TestCancel: the server is told, the client hears nothing more of the request,
// and its id is free.
func TestCancel(t *testing.T) {
	f := open(t)
	hold := newGate(t)
	f.raw.Tool("hold", hold.holding)
	f.raw.Tool("say", saying)
	f.send(call(`"x\u0061"`, "hold"))
	f.raw.Wait("the call", func() bool { return f.raw.ToolCalls("hold") == 1 })
	f.send(cancel(`"xa"`)) // the same text, written otherwise
	f.raw.WaitCount("notifications/cancelled", 1)
	f.send(call(`"xa"`, "say"))
	if m := f.next(); string(m.ID) != `"xa"` || m.said(t) != "said" {
		t.Errorf("got %s", m.text)
	}
	f.send(cancel(`"xa"`)) // it is over
	hold.open()
	f.send(call("2", "say"))
	if m := f.next(); string(m.ID) != "2" {
		t.Errorf("got %s", m.text)
	}
	if n := f.raw.Count("notifications/cancelled"); n != 1 {
		t.Errorf("the server was told %d cancellations", n)
	}
}

// TestIDInFlight: a request with the id of one in flight is refused, and takes
// nothing from that one.
func TestIDInFlight(t *testing.T) {
	f := open(t)
	hold := newGate(t)
	f.raw.Tool("hold", hold.holding)
	f.raw.Tool("say", saying)
	f.send(call("1", "hold"))
	f.send(call("1", "say"))
	f.next().fails(t, "1", -32600, "")
	hold.open()
	if m := f.next(); string(m.ID) != "1" || m.said(t) != "held" {
		t.Errorf("got %s", m.text)
	}
	if f.raw.ToolCalls("say") != 0 {
		t.Error("the second one was run")
	}
	f.send(call("1", "say"))
	if m := f.next(); m.said(t) != "said" {
		t.Errorf("got %s", m.text)
	}
}

// TestRounds: a tool asks, the client answers in another request, under another
// id and another clientInfo: it is the same caller.
func TestRounds(t *testing.T) {
	f := open(t)
	f.raw.Tool("ask", func(c *rawserver.Call) {
		c.Text("Hello " + c.Ask("elicitation/create", `{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}`).Content("name"))
	})
	f.send(call("1", "ask"))
	m := f.next()
	if m.Result == nil || m.Result.ResultType != "input_required" || len(m.Result.InputRequests) != 1 || m.Result.RequestState == "" {
		t.Fatalf("got %s", m.text)
	}
	retry := rpc("2", "tools/call", `"name":"ask","requestState":"`+m.Result.RequestState+`","inputResponses":{"elicitation-1":{"action":"accept","content":{"name":"Ada"}}}`)
	f.send(strings.Replace(retry, `"name":"t"`, `"name":"u"`, 1))
	if got := f.next().said(t); got != "Hello Ada" {
		t.Errorf("got %q", got)
	}
}

// TestOneMessageALine, also where the server's JSON has lines.
func TestOneMessageALine(t *testing.T) {
	f := open(t)
	f.raw.Hook(func(x *rawserver.Exchange) bool {
		if x.Record.Method() != "prompts/list" {
			return false
		}
		x.Reply(200, "{\n\"jsonrpc\": \"2.0\",\r\n\"id\": "+string(x.Record.Messages[0].ID)+",\n\"result\": {\n  \"prompts\": [\n{\"name\":\r\"a\\nb\"}]\n}}", "Content-Type", "application/json")
		return true
	})
	f.send(rpc("1", "prompts/list", ""))
	if m := f.next(); m.Result == nil || !strings.Contains(m.text, `"a\nb"`) {
		t.Errorf("got %s", m.text)
	}
}

// TestTooManyRequests: above the limit they are refused, cancellations are not.
func TestTooManyRequests(t *testing.T) {
	f := open(t, func(s *Settings) { s.MaxRequests = 2 })
	hold := newGate(t)
	f.raw.Tool("hold", hold.holding)
	f.send(call("1", "hold"))
	f.send(call("2", "hold"))
	f.send(call("3", "hold"))
	f.next().fails(t, "3", -32603, "overload")
	f.raw.Wait("the calls", func() bool { return f.raw.ToolCalls("hold") == 2 })
	f.send(cancel("1"))
	f.raw.WaitCount("notifications/cancelled", 1)
	hold.open()
	if m := f.next(); string(m.ID) != "2" || m.said(t) != "held" {
		t.Errorf("got %s", m.text)
	}
}

// TestListen: notifications carry the subscription's id; the client ends one by
// cancelling it, the server by the closing response and a cancellation.
func TestListen(t *testing.T) {
	f := open(t)
	f.raw.Tool("say", saying)
	listen := func(id string) string {
		return rpc(id, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
	}
	for _, id := range []string{"1", `"b"`} {
		f.send(listen(id))
		if m := f.next(); m.Method != "notifications/subscriptions/acknowledged" || string(m.Params.Meta.Subscription) != id {
			t.Fatalf("got %s", m.text)
		}
	}
	f.raw.Session().WaitListening()
	f.raw.Session().Notify("notifications/tools/list_changed", "")
	got := []string{string(f.next().Params.Meta.Subscription), string(f.next().Params.Meta.Subscription)}
	if slices.Sort(got); !slices.Equal(got, []string{`"b"`, "1"}) {
		t.Errorf("got notifications of %q", got)
	}
	f.send(cancel("1"))
	f.send(call("2", "say"))
	if m := f.next(); string(m.ID) != "2" {
		t.Fatalf("got %s", m.text)
	}
	f.raw.Session().Notify("notifications/tools/list_changed", "")
	if m := f.next(); string(m.Params.Meta.Subscription) != `"b"` {
		t.Errorf("got %s", m.text)
	}
	if err := f.shutdown(patience); err != nil {
		t.Error(err)
	}
	if m := f.next(); string(m.ID) != `"b"` || m.Result == nil || m.Result.ResultType != "complete" {
		t.Errorf("got %s, want the closing result", m.text)
	}
	if m := f.next(); m.Method != "notifications/cancelled" || string(m.Params.RequestID) != `"b"` {
		t.Errorf("got %s, want the cancellation of the subscription", m.text)
	}
	if text, more := <-f.lines; more {
		t.Errorf("got %s after the end", text)
	}
}

// TestEndOfInput: what was asked before it is answered, also what came with it.
func TestEndOfInput(t *testing.T) {
	f := open(t)
	hold := newGate(t)
	f.raw.Tool("hold", hold.holding)
	f.raw.Tool("say", saying)
	f.send(call("1", "hold"))
	f.raw.Wait("the call", func() bool { return f.raw.ToolCalls("hold") == 1 })
	if _, err := io.WriteString(f.write, call("2", "say")); err != nil { // without a newline
		t.Fatal(err)
	}
	if err := f.write.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of Serve", f.ended)
	if f.err != nil {
		t.Errorf("Serve: %v", f.err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- f.shutdown(patience) }()
	if m := f.next(); string(m.ID) != "2" || m.said(t) != "said" {
		t.Errorf("got %s", m.text)
	}
	hold.open()
	if m := f.next(); string(m.ID) != "1" || m.said(t) != "held" {
		t.Errorf("got %s", m.text)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestShutdownCutsOff what does not end in time, and says so.
func TestShutdownCutsOff(t *testing.T) {
	f := idle(t)
	f.raw.Tool("say", saying)
	f.send(call("1", "say")) // its response waits for a reader
	f.raw.Wait("the call", func() bool { return f.raw.ToolCalls("say") == 1 })
	if err := f.shutdown(50 * time.Millisecond); err == nil {
		t.Error("Shutdown does not say that a request was cut off")
	}
}

// TestClientThatDoesNotRead is given up after the write timeout: its calls are
// cancelled, and Serve ends with an error.
func TestClientThatDoesNotRead(t *testing.T) {
	f := idle(t, func(s *Settings) { s.WriteTimeout = 50 * time.Millisecond })
	hold := newGate(t)
	f.raw.Tool("hold", hold.holding)
	f.raw.Tool("say", saying)
	f.send(call("1", "hold"))
	f.raw.Wait("the call", func() bool { return f.raw.ToolCalls("hold") == 1 })
	f.send(call("2", "say"))
	await(t, "the end of Serve", f.ended)
	if f.err == nil || !strings.Contains(f.err.Error(), "not taken within") {
		t.Errorf("Serve: %v", f.err)
	}
	f.raw.WaitCount("notifications/cancelled", 1)
}

// TestUnreadOutputHoldsUpReading: no more than MaxRequests wait for a client
// that does not read, and none is lost when it does.
func TestUnreadOutputHoldsUpReading(t *testing.T) {
	f := idle(t, func(s *Settings) { s.MaxRequests = 4 })
	f.raw.Tool("say", saying)
	const n = 50
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			if _, err := io.WriteString(f.write, call(fmt.Sprint(i), "say")+"\n"); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	f.raw.Wait("the calls", func() bool { return f.raw.ToolCalls("say") >= 4 })
	select {
	case err := <-sent:
		t.Fatalf("all were read, though nothing was written (%v)", err)
	default:
	}
	scanner := newScanner(f.read)
	for i := range n {
		if !scanner.Scan() {
			t.Fatalf("only %d responses: %v", i, scanner.Err())
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	f.read.Close()
}

// TestInputThatBreaks is not its end, and what it breaks off in is no message.
func TestInputThatBreaks(t *testing.T) {
	for what, text := range map[string]string{"between": "", "in a message": call("1", "say"), "in a long one": strings.Repeat("x", 20_000)} {
		t.Run(what, func(t *testing.T) {
			f := open(t, func(s *Settings) { s.MaxLine = 4096 })
			if _, err := io.WriteString(f.write, text); err != nil {
				t.Fatal(err)
			}
			f.write.CloseWithError(errAny)
			await(t, "the end of Serve", f.ended)
			if !errors.Is(f.err, errAny) {
				t.Errorf("Serve: %v", f.err)
			}
			if err := f.shutdown(patience); err != nil {
				t.Error(err)
			}
			for line := range f.lines {
				t.Errorf("the client is told %s", line)
			}
		})
	}
}
