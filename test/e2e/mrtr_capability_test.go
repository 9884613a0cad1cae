package e2e

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A server that asks for what the client did not declare is told so, and the
// client learns what is missing: basic/index, "Error Codes", -32021.
func TestMissingCapability(t *testing.T) {
	t.Parallel()
	const url = `{"mode":"url","elicitationId":"e","url":"https://example.com","message":"Go"}`
	for _, test := range []struct {
		name, capabilities string
		method, params     string
		required           string
	}{
		{"nothing declared, elicitation", `{}`, "elicitation/create", question("a"), `{"elicitation":{"form":{}}}`},
		{"nothing declared, sampling", `{}`, "sampling/createMessage", sampling, `{"sampling":{}}`},
		{"nothing declared, roots", `{}`, "roots/list", ``, `{"roots":{}}`},
		{"form only, URL", `{"elicitation":{}}`, "elicitation/create", url, `{"elicitation":{"url":{}}}`},
		{"URL only, form", `{"elicitation":{"url":{}}}`, "elicitation/create", question("a"), `{"elicitation":{"form":{}}}`},
		{"elicitation only, sampling", `{"elicitation":{}}`, "sampling/createMessage", sampling, `{"sampling":{}}`},
		{"sampling without tools", `{"sampling":{}}`, "sampling/createMessage", `{"maxTokens":1,"messages":[],"tools":[]}`, `{"sampling":{"tools":{}}}`},
		{"sampling only, roots", `{"sampling":{}}`, "roots/list", ``, `{"roots":{}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, rawserver.Settings{})
			told := make(chan rawserver.Answer, 1)
			server.Tool("ask", func(c *rawserver.Call) {
				told <- c.Ask(test.method, test.params)
				<-c.Context().Done()
			})
			h := Start(t, Options{Upstream: to(server)})
			reply := h.Send(t, CallTool("ask", nil, Caps(test.capabilities)))
			reply.Fails(t, http.StatusBadRequest, -32021, "")
			same(t, "requiredCapabilities", parse(t, reply.Error.Data).(map[string]any)["requiredCapabilities"], test.required)
			if answer := receive(t, "answer", told); answer.Error == nil {
				t.Errorf("the server was answered %s, want an error", answer.Result)
			}
			// The call is over: nobody waits for its result.
			server.WaitCount("notifications/cancelled", 1)
			if got := server.Received("initialize")[0].Params; !bytes.Contains(got, []byte(`"capabilities":`+strings.TrimSuffix(test.capabilities, "}"))) {
				t.Errorf("the server was told %s, want the client's capabilities %s", got, test.capabilities)
			}
		})
	}
}

// On a stream that has begun the error is its last event.
func TestMissingCapabilityOnAStream(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) {
		c.Progress(1, 2)
		c.Ask("roots/list", "")
		<-c.Context().Done()
	})
	h := Start(t, Options{Upstream: to(server)})
	reply := h.Send(t, CallTool("ask", nil, Progress("p"), Caps(`{"sampling":{}}`)))
	if !reply.SSE() || len(reply.Notifications("notifications/progress")) != 1 {
		t.Errorf("want a stream with progress: %s", reply.Body)
	}
	reply.Fails(t, http.StatusOK, -32021, "")
}

// An empty elicitation capability means forms: client/elicitation,
// "Capabilities".
func TestEmptyElicitationCapabilityMeansForms(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("ask", func(c *rawserver.Call) { c.Text(c.Ask("elicitation/create", question("a")).Content("a")) })
	h := Start(t, Options{Upstream: to(server)})
	for _, capabilities := range []string{`{"elicitation":{}}`, `{"elicitation":{"form":{}}}`} {
		first := h.Send(t, CallTool("ask", nil, Caps(capabilities)))
		first.Asks(t, "elicitation-1")
		if got := h.Retry(t, first, Answers{"elicitation-1": Accept("a", "A")}).Text(t); got != "A" {
			t.Errorf("got %q", got)
		}
	}
}

// Capabilities are part of a session: servers read them once.
func TestCapabilitiesDecideTheSession(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("who", func(c *rawserver.Call) { c.Text(string(c.Session.Capabilities)) })
	h := Start(t, Options{Upstream: to(server)})
	const tasks = `"tasks":{"cancel":{},"requests":{"sampling":{"createMessage":{}}}}` // whoever can be asked can be asked as tasks
	for capabilities, want := range map[string]string{
		`{"sampling":{}}`: `{"sampling":{},` + tasks + `}`, `{}`: `{}`,
		`{ "sampling" : { } , "roots": {} }`: `{"roots":{},"sampling":{},` + tasks + `}`,
		`{"roots":{},"sampling":{}}`:         `{"roots":{},"sampling":{},` + tasks + `}`,
	} {
		got := h.Send(t, CallTool("who", nil, Caps(capabilities))).Text(t)
		same(t, "what the server sees", parse(t, []byte(got)), want)
	}
	if n := server.Count("initialize"); n != 3 {
		t.Errorf("%d sessions, want 3: one for each set of capabilities", n)
	}
}
