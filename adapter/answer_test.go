package adapter

import (
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

func TestSamplingContentOfARevision(t *testing.T) {
	const text, audio, use = `{"type":"text","text":"a\"b"}`, `{"type":"audio","data":"","mimeType":"x/y"}`, `{"type":"tool_use","id":"1","name":"n","input":{}}`
	for _, tt := range []struct {
		revision      mcp.Revision
		content, want string // "": the revision has no form for it
	}{
		{mcp.R20251125, `[` + text + `,` + use + `]`, `[` + text + `,` + use + `]`},
		{mcp.R20251125, use, use},
		{mcp.R20250618, text, text},
		{mcp.R20250618, `[` + text + `]`, text},
		{mcp.R20250618, `[` + text + `,{"type":"text","text":"c"}]`, `{"type":"text","text":"a\"b\nc"}`},
		{mcp.R20250618, `[` + text + `,` + audio + `]`, ``},
		{mcp.R20250618, `[]`, ``},
		{mcp.R20250618, use, ``},
		{mcp.R20250618, `[` + use + `]`, ``},
		{mcp.R20250326, `[` + audio + `]`, audio},
		{mcp.R20241105, audio, ``},
		{mcp.R20241105, `[` + audio + `]`, ``},
		{mcp.R20241105, `{"type":"future"}`, `{"type":"future"}`},
	} {
		got, ok := onlyBlock(tt.revision, []byte(tt.content))
		if string(got) != tt.want && ok || ok != (tt.want != "") {
			t.Errorf("%s: %s becomes %s, %v; want %s", tt.revision, tt.content, got, ok, tt.want)
		}
	}
}

func TestFormContentOfARevision(t *testing.T) {
	const form = `{"requestedSchema":{"type":"object","properties":{"a":{"type":"string"},"l":{"type":"array"}}}}`
	for _, tt := range []struct {
		revision             mcp.Revision
		params, answer, want string
	}{
		{mcp.R20251125, form, `{"action":"accept","content":{"x":["1"]}}`, `{"x":["1"]}`},
		{mcp.R20250618, form, `{"action":"accept","content":{"x":["1"],"a":"1","l":["2"],"n":1}}`, `{"a":"1","l":["2"],"n":1}`},
		{mcp.R20250618, form, `{"action":"accept","content":{ "a": "1" }}`, `{ "a": "1" }`},
		{mcp.R20251125, form, `{"action":"decline","content":{"a":"1"}}`, ``},
		{mcp.R20251125, form, `{"action":"accept","content":null}`, ``},
		{mcp.R20251125, `{"mode":"url","url":"https://x.example"}`, `{"action":"accept","content":{"a":"1"}}`, ``},
	} {
		in := &input{}
		in.Method, in.Params = mcp.MethodElicit, []byte(tt.params)
		content := contentOf(tt.answer)
		if got := string(formContent(tt.revision, in, []byte(tt.answer), content)); got != tt.want {
			t.Errorf("%s: %s has the content %s, want %s", tt.revision, tt.answer, got, tt.want)
		}
	}
}

func contentOf(answer string) []byte { return jsonrpc.Get([]byte(answer), "content") }
