package dialect

import (
	"bytes"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

// FuzzDecode: whatever a client sends that is JSON, each dialect refuses it, or
// makes a request of it whose parts are what the engine takes them for.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		plainCall,
		request("tools/call", `"name":"a","inputResponses":{"k":{"result":{"action":"accept"}}},"requestState":"s","_meta":{"progressToken":1}`),
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"},"dependent_responses":{"b":{"error":{"code":1,"message":""}},"k~x~` + state + `":{"result":{}}}}`,
		request("tools/callSaga", `"name":"a","arguments":null`),
		request("tools/resumeSaga", `"sagaToken":"s","completedSteps":[{"stepId":"a","result":{}},{"stepId":"b","error":{}}]`),
		request("tools/call", `"name":"a","resumeToken":"s","arguments":{"x":[1]}`),
		request("resources/read", `"uri":"a:b","resumeToken":null`),
	} {
		f.Add([]byte(seed), "")
		f.Add([]byte(seed), NameDependentRequests)
		f.Add([]byte(seed), NameSaga)
	}
	for _, seed := range []string{
		request("tools/call", `"name":"a","_meta":{"progressToken":1,"io.modelcontextprotocol/clientCapabilities":{"resumableRequests":{}}}`),
		request("requests/resume", `"resumeToken":"s"`), request("requests/getStatus", `"resumeToken":"s","requestId":"a"`),
		`{"jsonrpc":"2.0","id":"k\"~x~` + state + `","result":{}}`, `{"jsonrpc":"2.0","id":"~` + state + `","error":{"code":1,"message":""}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"resumeToken":"s"}}`,
	} {
		f.Add([]byte(seed), "")
		f.Add([]byte(seed), NameResumable)
	}
	f.Add([]byte(request("tools/call", `"name":"a","task":{"ttl":60000}`)), NameIncompleteResult)
	f.Add([]byte(request("tasks/input_response", `"inputResponses":{"k":{"action":"accept"},"l":{"error":{}}},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}`)), NameIncompleteResult)
	set := NewSet(
		Spoken{Dialect: persistent}, Spoken{Dialect: DependentRequests{asking}}, Spoken{Dialect: Saga{asking}},
		Spoken{Dialect: ResumeToken{3 * time.Second}}, Spoken{Dialect: tasks}, Spoken{Dialect: resumable},
	)
	f.Fuzz(func(t *testing.T, text []byte, header string) {
		msg, err := jsonrpc.ParseRequest(text, 64)
		if err != nil {
			return
		}
		var named []byte
		if header != "" {
			named = []byte(header)
		}
		var req adapter.Request
		var d Dialect
		if msg.IsRequest() {
			d, err = set.Decode(&msg, named, nil, &req)
		} else {
			d, err = set.DecodeUnanswered(&msg, &req)
		}
		if err != nil || d == nil {
			return
		}
		for what, part := range map[string][]byte{
			"params": req.Params, "arguments": req.Args, "_meta": req.Meta, "capabilities": req.Capabilities, "responses": req.InputResponses,
		} {
			if part != nil && (!jsonrpc.IsObject(part) || jsonrpc.Validate(part, jsonrpc.Strict, 66) != nil) {
				t.Errorf("%s: %s are %q", d.Name(), what, part)
			}
		}
		if req.Params == nil || req.Capabilities == nil || req.Method == "" || !bytes.Equal(req.ID, msg.ID) {
			t.Errorf("%s: got %+v", d.Name(), req)
		}
		for c := jsonrpc.Object(req.InputResponses); req.Wrapped && c.Next(); {
			if !isResponse(c.Value()) {
				t.Errorf("%s: response %q", d.Name(), c.Value())
			}
		}
	})
}
