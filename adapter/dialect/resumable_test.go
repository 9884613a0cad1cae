package dialect

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

var resumable = Resumable{Capabilities: asking, MaxWait: time.Minute, Life: time.Hour}

// comingBack is the _meta of a modern client that declares the capability,
// bareComingBack that of one that declares nothing else.
var (
	comingBack     = strings.Replace(meta, `{"elicitation":{}}`, `{"elicitation":{},"resumableRequests":{}}`, 1)
	bareComingBack = `"_meta":{"io.modelcontextprotocol/clientCapabilities":{"resumableRequests":{}}}`
)

func TestResumableDecode(t *testing.T) {
	for name, test := range map[string]struct {
		text, method, original, state string
		lasts                         bool
		reason                        adapter.Reason
	}{
		"a call":                   {text: request("tools/call", `"name":"a"`), method: "tools/call", lasts: true},
		"a prompt":                 {text: request("prompts/get", `"name":"a"`), method: "prompts/get", lasts: true},
		"a list":                   {text: request("tools/list", ``), method: "tools/list"},
		"a resumption":             {text: request("requests/resume", `"resumeToken":"s"`), method: mcp.MethodResume, original: "1", state: "s"},
		"one without a token":      {text: request("requests/resume", ``), reason: adapter.ReasonInvalidParams},
		"a look":                   {text: request("requests/getStatus", `"resumeToken":"s","requestId":"x"`), method: mcp.MethodStatus, original: `"x"`, state: "s"},
		"one without an id":        {text: request("requests/getStatus", `"resumeToken":"s"`), reason: adapter.ReasonInvalidParams},
		"one with half an id":      {text: request("requests/getStatus", `"resumeToken":"s","requestId":1.5`), reason: adapter.ReasonInvalidParams},
		"one with a number for it": {text: request("requests/getStatus", `"resumeToken":1,"requestId":1`), reason: adapter.ReasonInvalidParams},
		"no method":                {text: request("ping", ``), reason: adapter.ReasonMethodNotFound},
	} {
		var req adapter.Request
		err := resumable.Decode(parse(t, test.text), &req)
		var refusal *adapter.Refusal
		if test.reason != "" {
			if !errors.As(err, &refusal) || refusal.Reason != test.reason {
				t.Errorf("%s: %v, want a refusal for %s", name, err, test.reason)
			}
			continue
		}
		if err != nil || req.Method != test.method || string(req.Original) != test.original || string(req.RequestState) != test.state ||
			string(req.Capabilities) != string(asking) || req.ClientInfo != nil {
			t.Errorf("%s: %v, %+v", name, err, req)
		}
		if lasts := req.Away == time.Minute && req.Lasting == time.Hour; lasts != test.lasts {
			t.Errorf("%s: away %s, lasting %s", name, req.Away, req.Lasting)
		}
	}
}

// What gets no answer: a response to a question, and a cancellation with a token.
func TestResumableUnanswered(t *testing.T) {
	const error1 = `{"code":1,"message":""}`
	set := all()
	for name, test := range map[string]struct{ text, method, responses, state string }{
		"a result":            {`{"jsonrpc":"2.0","id":"k~` + state + `","result":{"a":1}}`, mcp.MethodAnswer, `{"k":{"result":{"a":1}}}`, state},
		"an error":            {`{"jsonrpc":"2.0","id":"k\"~x~` + state + `","error":` + error1 + `}`, mcp.MethodAnswer, `{"k\"~x":{"error":` + error1 + `}}`, state},
		"another's response":  {`{"jsonrpc":"2.0","id":"k~x","result":{}}`, "", "", ""},
		"a number":            {`{"jsonrpc":"2.0","id":1,"result":{}}`, "", "", ""},
		"a cancellation":      {`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"resumeToken":"s"}}`, mcp.MethodCancel, "", "s"},
		"one without a token": {`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "", "", ""},
		"another word":        {`{"jsonrpc":"2.0","method":"notifications/progress","params":{"requestId":1,"resumeToken":"s"}}`, "", "", ""},
	} {
		var req adapter.Request
		d, err := set.DecodeUnanswered(parse(t, test.text), &req)
		if err != nil || (d != nil) != (test.method != "") {
			t.Errorf("%s: %v, %v", name, d, err)
		}
		if d != nil && (req.Method != test.method || string(req.InputResponses) != test.responses || string(req.RequestState) != test.state) {
			t.Errorf("%s: got %s %s %s", name, req.Method, req.InputResponses, req.RequestState)
		}
	}
	off := all(NameResumable)
	var refusal *adapter.Refusal
	if _, err := off.DecodeUnanswered(parse(t, `{"jsonrpc":"2.0","id":"k~`+state+`","result":{}}`), new(adapter.Request)); !errors.As(err, &refusal) || !strings.Contains(refusal.Detail, "dialects.resumable.enabled") {
		t.Errorf("got %v", err)
	}
	for _, none := range []*Set{nil, NewSet()} {
		if d, err := none.DecodeUnanswered(parse(t, `{"jsonrpc":"2.0","id":"k~`+state+`","result":{}}`), new(adapter.Request)); d != nil || err != nil {
			t.Errorf("got %v, %v", d, err)
		}
	}
}

func TestResumableMessages(t *testing.T) {
	s := &adapter.Standing{Handle: []byte("abc"), Status: mcp.TaskWorking, Away: time.Minute, Waiting: 3}
	for want, got := range map[string][]byte{
		`{"jsonrpc":"2.0","method":"notifications/requests/resumePolicy","params":{"requestId":123,"resumeToken":"abc","maxWait":60}}`: resumable.AppendStanding(nil, []byte("123"), &adapter.Outcome{State: s.Handle, Standing: s}),
		`{"jsonrpc":"2.0","id":"k\"~abc","method":"roots/list","params":{}}`:                                                           resumable.AppendStanding(nil, nil, &adapter.Outcome{Standing: s, Inputs: []adapter.Input{{Key: `k"`, Method: "roots/list"}}}),
		`{"jsonrpc":"2.0","id":7,"result":{"status":"working","pendingMessages":3,"maxWait":60}}`:                                      resumable.AppendOutcome(nil, []byte("7"), &adapter.Outcome{Method: mcp.MethodStatus, Standing: s}),
		`{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`:                                                                             resumable.AppendOutcome(nil, []byte("7"), &adapter.Outcome{Method: "tools/call", Result: []byte(`{"content":[]}`), ServerInfo: []byte(`{}`)}),
		`{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete"}}`:                                                                  resumable.AppendOutcome(nil, []byte("7"), &adapter.Outcome{Method: "tools/call", Raw: true, Result: []byte(`{"resultType":"complete"}`)}),
		`{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"Internal error","data":{"reason":"internal"}}}`:                     resumable.AppendOutcome(nil, []byte("7"), &adapter.Outcome{Method: "tools/call", State: []byte("s")}),
	} {
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
