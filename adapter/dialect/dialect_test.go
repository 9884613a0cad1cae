package dialect

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

var asking = []byte(`{"elicitation":{"form":{}},"sampling":{}}`)

// all knows every proposal; those that off names are switched off.
func all(off ...string) *Set {
	var spoken []Spoken
	for _, d := range []Dialect{
		IncompleteResult{Capabilities: asking}, DependentRequests{asking}, Saga{asking}, ResumeToken{3 * time.Second}, resumable,
	} {
		s := Spoken{Dialect: d, Setting: "dialects." + strings.ReplaceAll(d.Name(), "-", "_") + ".enabled"}
		for _, name := range off {
			s.Off = s.Off || name == d.Name()
		}
		spoken = append(spoken, s)
	}
	return NewSet(spoken...)
}

func parse(t testing.TB, text string) *jsonrpc.Message {
	t.Helper()
	msg, err := jsonrpc.ParseRequest([]byte(text), 64)
	if err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	return &msg
}

// state is a text as long as a request state.
var state = strings.Repeat("AbC-_9", 40)

// Header, shape, configuration: in this order.
func TestRecognition(t *testing.T) {
	bare := request("tools/call", `"name":"a"`)
	dependent := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"},"dependent_responses":{}}`
	for _, test := range []struct{ text, header, configured, want string }{
		{plainCall, "", "", NameMRTR},
		{bare, "", "", NameMRTR},
		{bare, "", NameIncompleteResult, NameIncompleteResult},
		{bare, "", NameMRTR, NameMRTR},
		{plainCall, "", NameIncompleteResult, NameMRTR}, // the modern envelope
		{plainCall, NameIncompleteResult, "", NameIncompleteResult},
		{plainCall, NameMRTR, NameSaga, NameMRTR},
		{bare, NameMRTR, NameSaga, NameMRTR},
		{dependent, "", "", NameDependentRequests},
		{dependent, "", NameSaga, NameDependentRequests},
		{dependent, NameResumeToken, "", NameResumeToken},
		{request("tools/callSaga", `"name":"a"`), "", "", NameSaga},
		{request("tools/callSaga", `"name":"a",`+meta), "", NameResumeToken, NameSaga},
		{request("tools/resumeSaga", `"sagaToken":"a","completedSteps":[]`), "", "", NameSaga},
		{request("tools/call", `"name":"a","resumeToken":"x"`), "", "", NameResumeToken},
		{request("tools/call", `"name":"a","resumeToken":"x",`+meta), "", NameSaga, NameResumeToken},
		{request("tools/call", `"name":"a","resumeToken":"x",`+meta), NameMRTR, "", NameMRTR},
		{request("requests/resume", `"resumeToken":"x"`), "", "", NameResumable},
		{request("requests/getStatus", `"resumeToken":"x","requestId":1`), "", NameSaga, NameResumable},
		{request("tools/call", `"name":"a",`+comingBack), "", NameSaga, NameResumable},
		{request("tools/list", comingBack), "", "", NameMRTR}, // an offer, where there is nothing to take it for
		{request("tools/list", bareComingBack), "", "", NameResumable},
		{request("tools/call", `"name":"a",`+comingBack), NameMRTR, "", NameMRTR},
	} {
		set := all()
		configured, ok := set.Find(test.configured)
		if test.configured != "" && !ok {
			t.Fatal(test.configured)
		}
		var header []byte
		if test.header != "" {
			header = []byte(test.header)
		}
		var req adapter.Request
		if got, _ := set.Decode(parse(t, test.text), header, configured, &req); got == nil || got.Name() != test.want {
			t.Errorf("%s with header %q, configured %q: got %v, want %s", test.text, test.header, test.configured, got, test.want)
		}
	}
	// Who knows MRTR alone takes everything for it.
	for _, set := range []*Set{nil, {}, NewSet()} {
		var req adapter.Request
		if got, _ := set.Decode(parse(t, dependent), nil, nil, &req); got.Name() != NameMRTR {
			t.Errorf("got %s", got.Name())
		}
	}
}

func TestDialectThatIsOff(t *testing.T) {
	set := all(NameSaga, NameResumeToken, NameResumable)
	for _, test := range []struct{ text, header, want string }{
		{request("tools/callSaga", `"name":"a"`), "", "the dialect saga is switched off (dialects.saga.enabled)"},
		{plainCall, "saga", "the dialect saga is switched off (dialects.saga.enabled)"},
		{request("tools/call", `"name":"a","resumeToken":"x"`), "", "the dialect resume-token is switched off (dialects.resume_token.enabled)"},
		{plainCall, "sagas", `Holdfast-Dialect is "sagas"; it may be mrtr, incomplete-result, dependent-requests, saga, resume-token, resumable`},
		{request("requests/resume", `"resumeToken":"x"`), "", "the dialect resumable is switched off (dialects.resumable.enabled)"},
		{request("tools/call", `"name":"x",`+bareComingBack), "", "the dialect resumable is switched off (dialects.resumable.enabled)"},
		{plainCall, "Saga", `Holdfast-Dialect is "Saga"; it may be mrtr, incomplete-result, dependent-requests, saga, resume-token, resumable`},
	} {
		var header []byte
		if test.header != "" {
			header = []byte(test.header)
		}
		var req adapter.Request
		d, err := set.Decode(parse(t, test.text), header, nil, &req)
		var refusal *adapter.Refusal
		if d != nil || !errors.As(err, &refusal) || refusal.Reason != adapter.ReasonDialect || refusal.Detail != test.want {
			t.Errorf("%s with header %q: got %v, %v; want %s", test.text, test.header, d, err, test.want)
		}
	}
	if got := string(set.Extension()); got != `{"incomplete-result":{},"dependent-requests":{}}` {
		t.Errorf("server/discover says %s", got)
	}
	var req adapter.Request
	if d, err := set.Decode(parse(t, request("tools/call", `"name":"x",`+comingBack)), nil, nil, &req); err != nil || d.Name() != NameMRTR {
		t.Errorf("an offer that is not taken: got %v, %v", d, err)
	}
	if got := all(NameIncompleteResult, NameDependentRequests, NameSaga, NameResumeToken, NameResumable).Extension(); got != nil {
		t.Errorf("server/discover says %s where all are off", got)
	}
}

// What each proposal makes of a request, beside what it has from MRTR.
func TestDecodeProposals(t *testing.T) {
	type want struct {
		method, name, params, args, caps, responses, state string
		wrapped, carried, stays                            bool
		hold                                               time.Duration
	}
	const params = `{"name":"a","arguments":{"x":1}}`
	ask := string(asking)
	for name, test := range map[string]struct {
		dialect Dialect
		text    string
		want    want
	}{
		"incomplete, first": {IncompleteResult{Capabilities: asking}, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`,
			want{method: "tools/call", name: "a", params: params, args: `{"x":1}`, caps: ask}},
		"incomplete, retry": {IncompleteResult{Capabilities: asking}, request("tools/call", `"name":"a","inputResponses":{"k":{"result":{}}},"requestState":"s"`),
			want{method: "tools/call", name: "a", params: `{"name":"a","inputResponses":{"k":{"result":{}}},"requestState":"s"}`, caps: ask, responses: `{"k":{"result":{}}}`, state: "s", wrapped: true}},
		"incomplete, no params": {IncompleteResult{Capabilities: asking}, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
			want{method: "tools/list", params: `{}`, caps: ask}},
		"incomplete, own capabilities": {IncompleteResult{Capabilities: asking}, request("tools/list", `"_meta":{"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}`),
			want{method: "tools/list", params: `{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}}`, caps: `{"roots":{}}`}},
		"dependent, retry": {DependentRequests{asking}, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"},"dependent_responses":{"b~c":{"error":{"code":1,"message":""}},"k~x~` + state + `":{"result":{"y":2}}}}`,
			want{method: "tools/call", name: "a", params: `{"name":"a"}`, caps: ask, responses: `{"b~c":{"error":{"code":1,"message":""}},"k~x":{"result":{"y":2}}}`, state: state, wrapped: true}},
		"dependent, lost key": {DependentRequests{asking}, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","requestState":"s"},"dependent_responses":{"k":{"result":{}}}}`,
			want{method: "tools/call", name: "a", params: `{"name":"a","requestState":"s"}`, caps: ask, responses: `{"k":{"result":{}}}`, wrapped: true}},
		"saga, call": {Saga{asking}, `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":` + params + `}`,
			want{method: "tools/call", name: "a", params: params, args: `{"x":1}`, caps: ask, carried: true}},
		"saga, resume": {Saga{asking}, request("tools/resumeSaga", `"sagaToken":"s","completedSteps":[{"stepId":"a\"","result":{}},{"stepId":"b","error":{"code":1,"message":""}}]`),
			want{method: "tools/call", params: `{}`, caps: ask, state: "s", wrapped: true, carried: true,
				responses: `{"a\"":{"stepId":"a\"","result":{}},"b":{"stepId":"b","error":{"code":1,"message":""}}}`}},
		"saga, roots": {Saga{asking}, request("tools/callSaga", `"name":"a","_meta":{"io.modelcontextprotocol/clientCapabilities":{"roots":{},"sampling":{}}}`),
			want{method: "tools/call", name: "a", params: `{"name":"a","_meta":{"io.modelcontextprotocol/clientCapabilities":{"roots":{},"sampling":{}}}}`, caps: `{"sampling":{}}`, carried: true}},
		"saga, plain call": {Saga{asking}, request("tools/call", `"name":"a"`),
			want{method: "tools/call", name: "a", params: `{"name":"a"}`, caps: `{}`}},
		"token, first": {ResumeToken{3 * time.Second}, request("tools/call", `"name":"a","inputResponses":{}`),
			want{method: "tools/call", name: "a", params: `{"name":"a","inputResponses":{}}`, caps: `{}`, stays: true, hold: 3 * time.Second}},
		"token, retry": {ResumeToken{3 * time.Second}, request("tools/call", `"name":"a","resumeToken":"s","arguments":{"x":1}`),
			want{method: "tools/call", name: "a", params: params, args: `{"x":1}`, caps: `{}`, state: "s", stays: true, hold: 3 * time.Second}},
		"token, null": {ResumeToken{3 * time.Second}, request("tools/call", `"name":"a","resumeToken":null`),
			want{method: "tools/call", name: "a", params: `{"name":"a"}`, caps: `{}`, stays: true, hold: 3 * time.Second}},
		"token, prompt": {ResumeToken{3 * time.Second}, request("prompts/get", `"name":"a"`),
			want{method: "prompts/get", name: "a", params: `{"name":"a"}`, caps: `{}`}},
		"token, list": {ResumeToken{3 * time.Second}, request("tools/list", `"resumeToken":"s"`),
			want{method: "tools/list", params: `{}`, caps: `{}`}},
	} {
		t.Run(name, func(t *testing.T) {
			var req adapter.Request
			if err := test.dialect.Decode(parse(t, test.text), &req); err != nil {
				t.Fatal(err)
			}
			got := want{req.Method, string(req.Name), string(req.Params), string(req.Args), string(req.Capabilities), string(req.InputResponses), string(req.RequestState), req.Wrapped, req.Carried, req.Stays, req.Hold}
			if got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
			if string(req.ID) != "1" {
				t.Errorf("id is %s", req.ID)
			}
		})
	}
}

func TestProposalsRefuse(t *testing.T) {
	for name, test := range map[string]struct {
		dialect Dialect
		text    string
		want    string // in the detail
	}{
		"answer not wrapped":    {IncompleteResult{}, request("tools/call", `"name":"a","inputResponses":{"k":{"action":"accept"}}`), "a result or an error"},
		"answer with both":      {IncompleteResult{}, request("tools/call", `"name":"a","inputResponses":{"k":{"result":{},"error":{}}}`), "a result or an error"},
		"answers no object":     {IncompleteResult{}, request("tools/call", `"name":"a","inputResponses":[]`), "must be an object"},
		"_meta no object":       {IncompleteResult{}, request("tools/call", `"name":"a","_meta":7`), "_meta must be an object"},
		"name misspelt":         {IncompleteResult{}, request("tools/call", `"name":"a","Name":"b"`), "spelt"},
		"no name":               {IncompleteResult{}, request("tools/call", `"x":1`), "params.name"},
		"dependent no object":   {DependentRequests{}, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"},"dependent_responses":[]}`, "dependent_responses must be an object"},
		"dependent not wrapped": {DependentRequests{}, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"},"dependent_responses":{"k":{}}}`, "each of dependent_responses"},
		"dependent twice":       {DependentRequests{}, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"},"dependent_responses":{"k":{"result":{}},"k~` + state + `":{"result":{}}}}`, "twice"},
		"no token":              {Saga{}, request("tools/resumeSaga", `"completedSteps":[]`), "sagaToken must be a string"},
		"no steps":              {Saga{}, request("tools/resumeSaga", `"sagaToken":"s"`), "completedSteps"},
		"step twice":            {Saga{}, request("tools/resumeSaga", `"sagaToken":"s","completedSteps":[{"stepId":"a","result":{}},{"stepId":"a","result":{}}]`), "of its own"},
		"step without outcome":  {Saga{}, request("tools/resumeSaga", `"sagaToken":"s","completedSteps":[{"stepId":"a"}]`), "a result or an error"},
		"step without id":       {Saga{}, request("tools/resumeSaga", `"sagaToken":"s","completedSteps":[{"result":{}}]`), "stepId"},
		"token no string":       {ResumeToken{}, request("tools/call", `"name":"a","resumeToken":7`), "resumeToken must be a string"},
		"unknown method":        {Saga{}, request("tools/other", ``), "no method"},
		"tasks to hear of":      {IncompleteResult{}, request("subscriptions/listen", `"notifications":{"taskIds":["t"]}`), "taskIds needs the extension"},
		"tasks, declared":       {Resumable{}, request("subscriptions/listen", `"notifications":{"taskIds":["t"]},`+declaring), "taskIds are of the dialect tasks"},
	} {
		t.Run(name, func(t *testing.T) {
			var req adapter.Request
			err := test.dialect.Decode(parse(t, test.text), &req)
			var refusal *adapter.Refusal
			if !errors.As(err, &refusal) || !strings.Contains(refusal.Detail, test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestOutcomesOfProposals(t *testing.T) {
	inputs := []adapter.Input{
		{Key: `lo"gin`, Method: "elicitation/create", Params: []byte(`{"message":"?"}`)},
		{Key: "capital", Method: "sampling/createMessage"},
	}
	asked := &adapter.Outcome{Method: "tools/call", Inputs: inputs, State: []byte("st"), ServerInfo: []byte(`{"name":"s"}`)}
	waits := &adapter.Outcome{Method: "tools/call", State: []byte("st")}
	for _, test := range []struct {
		dialect     Dialect
		asks, waits string // without the envelope's start
	}{
		{IncompleteResult{}, `"result":{"inputRequests":{"lo\"gin":{"method":"elicitation/create","params":{"message":"?"}},"capital":{"method":"sampling/createMessage","params":{}}},"requestState":"st"}}`,
			`"result":{"requestState":"st"}}`},
		{DependentRequests{}, `"dependent_requests":{"lo\"gin~st":{"method":"elicitation/create","params":{"message":"?"}},"capital":{"method":"sampling/createMessage","params":{}}}}`,
			`"dependent_requests":{"wait~st":{"method":"ping","params":{}}}}`},
		{Saga{}, `"result":{"state":"suspended","sagaToken":"st","steps":[{"type":"elicitation","stepId":"lo\"gin","params":{"message":"?"}},{"type":"sampling","stepId":"capital","params":{}}]}}`,
			`"result":{"state":"suspended","sagaToken":"st","steps":[]}}`},
		{ResumeToken{}, "", `"result":{"content":[],"nextResumeToken":"st"}}`},
	} {
		for _, of := range []struct {
			outcome *adapter.Outcome
			want    string
		}{
			{asked, test.asks}, {waits, test.waits},
			{&adapter.Outcome{Error: []byte(`{"code":-1,"message":"no"}`)}, `"error":{"code":-1,"message":"no"}}`},
			// The server's result as it is, but for what belongs to legacy tasks.
			{&adapter.Outcome{Method: "tools/call", Result: []byte(`{ "content" : [] ,"isError":false}`), ServerInfo: []byte(`{}`)}, `"result":{ "content" : [] ,"isError":false}}`},
			{&adapter.Outcome{Method: "tools/call", Result: []byte(`{"_meta":{"io.modelcontextprotocol/related-task":{}},"content":[],"task":{},"resultType":"x"}`)}, `"result":{"content":[]}}`},
			{&adapter.Outcome{Method: "tools/call", Result: []byte(`{"content":[],"_meta":{"a":1,"io.modelcontextprotocol/related-task":{}}}`)}, `"result":{"content":[],"_meta":{"a":1}}}`},
			{&adapter.Outcome{Method: "tools/list", Result: []byte(`{"tools":[{"name":"a","execution":{}}],"ttlMs":1}`)}, `"result":{"tools":[{"name":"a"}],"ttlMs":1}}`},
			{&adapter.Outcome{Method: "tools/list", Result: []byte(`{"tools":[{"name":"a"}],"_meta":{"b":2}}`)}, `"result":{"tools":[{"name":"a"}],"_meta":{"b":2}}}`},
			{&adapter.Outcome{Method: "tools/call", Result: []byte(`[]`)}, `"error":{"code":-32603,"message":"The server's result is no object","data":{"reason":"upstream_reply","mayHaveRun":true}}}`},
		} {
			if of.want == "" {
				continue
			}
			want := `x{"jsonrpc":"2.0","id":"i",` + of.want
			if got := string(test.dialect.AppendOutcome([]byte("x"), []byte(`"i"`), of.outcome)); got != want {
				t.Errorf("%s: got  %s\nwant %s", test.dialect.Name(), got, want)
			}
		}
	}
	for method, want := range map[string]string{"prompts/get": `{"messages":[],"nextResumeToken":"st"}`, "resources/read": `{"contents":[],"nextResumeToken":"st"}`} {
		var got struct{ Result json.RawMessage }
		text := ResumeToken{}.AppendOutcome(nil, []byte("1"), &adapter.Outcome{Method: method, State: []byte("st")})
		if err := json.Unmarshal(text, &got); err != nil || string(got.Result) != want {
			t.Errorf("%s: got %s, want %s", method, got.Result, want)
		}
	}
}

// Recognition takes no memory of its own, whatever a request is of.
func TestRecognitionAllocatesNothing(t *testing.T) {
	set, msg := all(), parse(t, plainCall)
	var req adapter.Request
	var plain, recognised float64
	plain = testing.AllocsPerRun(100, func() { _ = MRTR{}.Decode(msg, &req) })
	recognised = testing.AllocsPerRun(100, func() { _, _ = set.Decode(msg, nil, nil, &req) })
	if recognised != plain {
		t.Errorf("%v allocations with recognition, %v without", recognised, plain)
	}
}

func BenchmarkRecognition(b *testing.B) {
	set, msg := all(), parse(b, plainCall)
	var req adapter.Request
	b.Run("MRTR alone", func(b *testing.B) {
		for b.Loop() {
			if err := (MRTR{}).Decode(msg, &req); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("recognised", func(b *testing.B) {
		for b.Loop() {
			if _, err := set.Decode(msg, nil, nil, &req); err != nil {
				b.Fatal(err)
			}
		}
	})
}
