package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/dialect"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// The dialect resumable over HTTP: streams that clients come back to, and messages
// that get no answer.

func resumableSettings() Settings {
	set := settings()
	set.Dialects = dialect.NewSet(dialect.Spoken{Dialect: dialect.Resumable{Capabilities: []byte(`{}`), MaxWait: time.Minute, Life: time.Hour}})
	return set
}

const (
	resumeBody = `{"jsonrpc":"2.0","id":"c1","method":"requests/resume","params":{"resumeToken":"t"}}`
	bareHead   = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
)

func barePost(body string) string {
	return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", bareHead, len(body), body)
}

// The client comes back where there is nothing more to say, and no answer either:
// an error would be taken for one.
func TestStreamThatEndsWithoutAnAnswer(t *testing.T) {
	for name, err := range map[string]error{
		"ended":   adapter.ErrEnded,
		"passing": &adapter.Refusal{Reason: adapter.ReasonBusDown, Detail: "away", RetryAfter: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, resumableSettings(), playing(newRound(notification(progress), err))).dial(t)
			c.send(barePost(resumeBody))
			resp, text := c.answer()
			checkStream(t, resp)
			if text != event(progress) {
				t.Errorf("got %q", text)
			}
		})
	}
	c := start(t, resumableSettings(), playing(newRound(adapter.ErrEnded))).dial(t)
	c.send(barePost(resumeBody))
	if resp, text := c.answer(); resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") || text != "" {
		t.Errorf("got %d %q %q", resp.StatusCode, resp.Header, text)
	}
}

// What would be written to a connection that its client has closed is not taken
// for told: the round is not asked for more.
func TestMessageAfterTheConnectionWasClosed(t *testing.T) {
	round := newRound(notification(progress))
	c := start(t, resumableSettings(), playing(round)).dial(t)
	c.send(barePost(resumeBody))
	resp := c.head()
	piece(t, resp.Body, event(progress))
	if err := c.conn.Close(); err != nil {
		t.Fatal(err)
	}
	round.steps <- notification(progress)
	round.steps <- notification(progress)
	await(t, round.closed, waitFor, "close of the round")
	if n := len(round.steps); n != 1 && n != 2 { // two where the watcher was first
		t.Errorf("%d messages were left, want one at least", n)
	}
}

func TestMessageWithoutAnAnswer(t *testing.T) {
	var got *adapter.Request
	engine := &scripted{begin: func(req *adapter.Request) (*scriptedRound, error) {
		got = &adapter.Request{Method: req.Method, InputResponses: append([]byte(nil), req.InputResponses...)}
		if strings.Contains(string(req.InputResponses), "refuse") {
			return nil, &adapter.Refusal{Reason: adapter.ReasonStateForeign, Detail: "not yours"}
		}
		return newRound(adapter.ErrDeadline, adapter.Event{Outcome: &adapter.Outcome{Result: []byte("{}")}}), nil
	}}
	s := start(t, resumableSettings(), engine)
	token := strings.Repeat("x", 120)
	for _, test := range []struct {
		body, method string
		status       int
	}{
		{`{"jsonrpc":"2.0","id":"k~` + token + `","result":{}}`, mcp.MethodAnswer, http.StatusAccepted},
		{`{"jsonrpc":"2.0","id":"refuse~` + token + `","error":{"code":1,"message":""}}`, mcp.MethodAnswer, http.StatusBadRequest},
		{`{"jsonrpc":"2.0","id":"k","result":{}}`, "", http.StatusBadRequest},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"resumeToken":"t"}}`, mcp.MethodCancel, http.StatusAccepted},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "", http.StatusAccepted},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"resumeToken":"t"}}`, "", http.StatusBadRequest},
	} {
		got = &adapter.Request{}
		c := s.dial(t)
		c.send(barePost(test.body))
		resp, text := c.answer()
		if resp.StatusCode != test.status || test.status == http.StatusAccepted && text != "" || got.Method != test.method {
			t.Errorf("%s: HTTP %d %s, begun %q", test.body, resp.StatusCode, text, got.Method)
		}
	}
}

func TestResumableNeedsAStream(t *testing.T) {
	c := start(t, resumableSettings(), playing(newRound())).dial(t)
	c.send(strings.Replace(barePost(resumeBody), "HTTP/1.1", "HTTP/1.0", 1))
	if resp, text := c.answer(); resp.StatusCode != http.StatusHTTPVersionNotSupported {
		t.Errorf("got %d %s", resp.StatusCode, text)
	}
}

// A request with the modern envelope keeps the modern rules, in this dialect too.
func TestResumableWithTheModernEnvelope(t *testing.T) {
	s := start(t, resumableSettings(), answering(adapter.Outcome{Result: []byte(`{}`)}))
	const offer = `"io.modelcontextprotocol/clientCapabilities":{"resumableRequests":{}}`
	meta := func(version string) string {
		return `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `",` + offer + `}`
	}
	call := body("tools/call", `"name":"add",`+meta(mcp.Modern))
	resume := body(mcp.MethodResume, `"resumeToken":"t",`+meta(mcp.Modern))
	const named = "Holdfast-Dialect: resumable"
	for name, c := range map[string]struct {
		request string
		status  int
		code    int
	}{
		"a call":                      {post(call), 200, 0},
		"one without the envelope":    {barePost(body("tools/call", `"name":"add","_meta":{`+offer+`}`)), 200, 0},
		"no headers":                  {barePost(call), 400, mcp.CodeHeaderMismatch},
		"no version header":           {post(call, "-MCP-Protocol-Version"), 400, mcp.CodeHeaderMismatch},
		"no method header":            {post(call, "-Mcp-Method"), 400, mcp.CodeHeaderMismatch},
		"no name header":              {post(call, "-Mcp-Name"), 400, mcp.CodeHeaderMismatch},
		"an unknown version":          {post(body("tools/call", `"name":"add",`+meta("2099-01-01")), "MCP-Protocol-Version: 2099-01-01"), 400, mcp.CodeUnsupportedVersion},
		"that, named":                 {post(body("tools/call", `"name":"add",`+meta("2099-01-01")), "MCP-Protocol-Version: 2099-01-01", "+"+named), 400, mcp.CodeUnsupportedVersion},
		"half an envelope":            {post(body("tools/call", `"name":"add","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`), "+"+named), 400, -32602},
		"a resumption":                {post(resume, "Mcp-Method: "+mcp.MethodResume, "-Mcp-Name"), 200, 0},
		"a resumption, no headers":    {barePost(resume), 400, mcp.CodeHeaderMismatch},
		"a resumption, bare":          {barePost(resumeBody), 200, 0},
		"an unknown version, resumed": {post(body(mcp.MethodResume, `"resumeToken":"t",`+meta("2099-01-01")), "MCP-Protocol-Version: 2099-01-01", "Mcp-Method: "+mcp.MethodResume, "-Mcp-Name"), 400, mcp.CodeUnsupportedVersion},
	} {
		client := s.dial(t)
		client.send(c.request)
		resp, text := client.answer()
		if resp.StatusCode != c.status {
			t.Errorf("%s: HTTP %d %s, want %d", name, resp.StatusCode, text, c.status)
		} else if c.code != 0 && parseError(t, text).Error.Code != c.code {
			t.Errorf("%s: got %s, want code %d", name, text, c.code)
		}
	}
}
