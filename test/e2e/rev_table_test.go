package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// interview is one dialogue with a server of one revision that uses, and offers,
// everything that its revision has.
type interview struct {
	revision mcp.Revision
	server   *rawserver.Server
	replies  map[string]*Reply
	asked    map[string]rawserver.Answer // what the server got for its questions
}

const (
	everyTool = `{"name":"everything","title":"All of it","inputSchema":{"type":"object"},"outputSchema":{"type":"object"},` +
		`"annotations":{"readOnlyHint":true},"icons":[{"src":"https://example.com/i.png"}],"_meta":{"a/b":1},"execution":{"taskSupport":"optional"}}`
	everyForm = `{"message":"Fill in","requestedSchema":{"type":"object","properties":{` +
		`"size":{"type":"string","oneOf":[{"const":"s","title":"Small"},{"const":"l","title":"Large"}],"default":"s"},` +
		`"pet":{"type":"string","enum":["c","d"],"enumNames":["Cat","Dog"]}},"required":["size"]}}`
	everyContent = `[{"type":"text","text":"done"},{"type":"audio","data":"AA==","mimeType":"audio/wav"},` +
		`{"type":"resource_link","uri":"a:b","name":"b"}]`
	samplingText = `{"messages":[{"role":"user","content":{"type":"text","text":"?"}}],"maxTokens":9}`
)

// converse holds the interview.
func converse(t *testing.T, revision mcp.Revision) *interview {
	v := &interview{revision: revision, replies: map[string]*Reply{}, asked: map[string]rawserver.Answer{}}
	capabilities := `{"tools":{},"prompts":{},"resources":{"subscribe":true},"logging":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`
	v.server = newServer(t, rawserver.Settings{Version: revision.String(), Capabilities: capabilities})
	v.server.Declare("everything", everyTool, func(c *rawserver.Call) {
		token := string(c.Token())
		c.Notify("notifications/progress", `{"progressToken":`+token+`,"progress":1,"message":"half"}`)
		c.Log("info", "said")
		v.asked["ping"] = c.Ask("ping", "")
		v.asked["form"] = c.Ask("elicitation/create", everyForm)
		v.asked["url"] = c.Ask("elicitation/create", `{"mode":"url","elicitationId":"e-1","url":"https://example.com/visit","message":"Visit"}`)
		v.asked["sampling"] = c.Ask("sampling/createMessage", samplingText)
		v.asked["roots"] = c.Ask("roots/list", "")
		c.Result(`{"content":` + everyContent + `,"structuredContent":{"n":1}}`)
	})
	v.server.Tool("visit", func(c *rawserver.Call) {
		c.Error(-32042, "URL elicitation required", `{"elicitations":[{"mode":"url","elicitationId":"e-2","url":"https://example.com/a","message":"One"}]}`)
	})
	v.server.TaskTool("task", 100, func(task *rawserver.Task) { task.Text("as a task") })
	v.server.Tool("batch", func(c *rawserver.Call) {
		c.Batch(c.NotificationText("notifications/progress", `{"progressToken":`+string(c.Token())+`,"progress":1}`),
			c.ResultText(`{"content":[{"type":"text","text":"from an array"}]}`))
	})
	v.server.Handle("completion/complete", func(c *rawserver.Call) { c.Result(`{"completion":{"values":["x"]}}`) })

	// As for a client without the extension, which it declares for a server to see.
	h := Start(t, Options{Upstream: to(v.server), Config: "dialects: {tasks: {enabled: false}}"})
	caps := Caps(`{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{"listChanged":true},` +
		`"extensions":{"io.modelcontextprotocol/tasks":{},"example/x":{}},"tasks":{}}`)
	send := func(name string, m *Message) *Reply {
		caps(m)
		v.replies[name] = h.Send(t, m)
		return v.replies[name]
	}
	send("discover", Request("server/discover", nil))
	send("ping", Request("ping", nil))
	send("list", Request("tools/list", nil))
	send("missing", Request("resources/read", map[string]any{"uri": "a:none"}))
	send("complete", Request("completion/complete", map[string]any{
		"ref": map[string]any{"type": "ref/prompt", "name": "p"}, "argument": map[string]any{"name": "a", "value": ""},
		"context": map[string]any{"arguments": map[string]any{"b": "c"}},
	}))
	send("visit", CallTool("visit", nil))
	send("batch", CallTool("batch", nil, Progress("batch")))
	send("task", CallTool("task", nil))
	listener := h.Open(t, Request("subscriptions/listen", map[string]any{"notifications": map[string]any{"resourceSubscriptions": []string{"a:b"}}}, caps))
	v.server.WaitCount("resources/subscribe", 1)
	listener.Close()

	blocks := map[string]any{"role": "assistant", "model": "m", "content": []any{
		map[string]any{"type": "text", "text": "one"}, map[string]any{"type": "text", "text": "two"},
	}}
	reply := send("form", CallTool("everything", nil, Progress("mine"), Level("debug")))
	reply = h.Retry(t, reply, Answers{"elicitation-1": map[string]any{"action": "accept", "content": map[string]any{"size": "l", "more": []string{"x"}}, "resultType": "complete"}})
	v.replies["url"] = reply
	reply = h.Retry(t, reply, Answers{"elicitation-2": map[string]any{"action": "accept", "content": map[string]any{}}})
	v.replies["sampling"] = reply
	reply = h.Retry(t, reply, Answers{"sampling-1": blocks})
	v.replies["roots"] = reply
	v.replies["end"] = h.Retry(t, reply, Answers{"roots-1": Roots("file:///a")})
	return v
}

// result is a complete result of the interview, as text.
func (v *interview) result(t *testing.T, name string) string {
	v.replies[name].Completes(t)
	return string(v.replies[name].Result)
}

// has checks that a text has all parts, or that it has none of those that begin
// with "!".
func has(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if rest, not := strings.CutPrefix(part, "!"); not == strings.Contains(text, rest) {
			t.Errorf("%s: %s\nwant %s", what, text, part)
		}
	}
}

// sent are the params of the first message of a method that the server got.
func (v *interview) sent(t *testing.T, method string) string {
	t.Helper()
	all := v.server.Received(method)
	if len(all) == 0 {
		t.Fatalf("the server got no %s", method)
	}
	return string(all[0].Params)
}

// told is everything that the client got.
func (v *interview) told() string {
	text := ""
	for name, r := range v.replies {
		text += fmt.Sprintf("%s: %v %s\n", name, r.Header, r.Body)
	}
	return text
}

// posted is everything that the server got.
func (v *interview) posted() string {
	text := ""
	for _, r := range spoken(v.server) {
		text += string(r.Body) + "\n"
	}
	return text
}

// rows say for each row of the table how it shows.
var rows = map[mcp.Feature]func(t *testing.T, v *interview){
	mcp.Handshake: func(t *testing.T, v *interview) {
		has(t, "initialize", v.sent(t, "initialize"), `"protocolVersion":"2025-11-25"`, `"clientInfo":{`)
		has(t, "what the client got", v.told(), `!"protocolVersion"`)
	},
	mcp.VersionHeader: func(t *testing.T, v *interview) {
		for _, r := range spoken(v.server) {
			got := r.Header.Get("MCP-Protocol-Version")
			want := v.revision.String()
			if !v.revision.Has(mcp.VersionHeader) || r.Method() == "initialize" || oneStream(t) {
				want = ""
			}
			if got != want {
				t.Errorf("%s %s has MCP-Protocol-Version %q, want %q", r.HTTP, r.Method(), got, want)
			}
		}
	},
	mcp.SessionID: func(t *testing.T, v *interview) {
		for name, r := range v.replies {
			if id := r.Header.Get("Mcp-Session-Id"); id != "" {
				t.Errorf("%s: the client got the session %s", name, id)
			}
		}
	},
	mcp.Batches: func(t *testing.T, v *interview) {
		has(t, "the result", v.result(t, "batch"), "from an array")
		for _, r := range v.server.Records() {
			if strings.HasPrefix(strings.TrimSpace(string(r.Body)), "[") {
				t.Errorf("the server was sent an array: %s", r.Body)
			}
		}
		for name, r := range v.replies {
			has(t, name, string(r.Body), "!data: [", "!data:[")
		}
	},
	mcp.Redelivery: func(t *testing.T, v *interview) { has(t, "what the client got", v.told(), "!\nid:") },
	mcp.Ping: func(t *testing.T, v *interview) {
		if !v.asked["ping"].OK() {
			t.Error("the server's ping was not answered")
		}
		v.replies["ping"].Fails(t, 404, -32601, "")
	},
	mcp.DiscoverMethod: func(t *testing.T, v *interview) {
		has(t, "the result", v.result(t, "discover"), `"supportedVersions":["2026-07-28"]`)
		if n := v.server.Count("server/discover"); n > replicas { // for its era
			t.Errorf("the server was asked server/discover %d times, want once by each replica at most", n)
		}
	},

	mcp.ServerRequests: func(t *testing.T, v *interview) {
		v.replies["form"].Asks(t, "elicitation-1")
		v.replies["sampling"].Asks(t, "sampling-1")
		v.replies["roots"].Asks(t, "roots-1")
		v.replies["end"].Completes(t)
	},
	mcp.SetLevel: func(t *testing.T, v *interview) {
		has(t, "logging/setLevel", v.sent(t, "logging/setLevel"), `"level":"debug"`)
		if len(v.replies["form"].Notifications("notifications/message")) != 1 {
			t.Error("the log message did not come")
		}
	},
	mcp.ResourceSubscriptions: func(t *testing.T, v *interview) {
		has(t, "resources/subscribe", v.sent(t, "resources/subscribe"), `"uri":"a:b"`)
	},
	mcp.ResourceNotFoundCode: func(t *testing.T, v *interview) {
		if r := v.replies["missing"]; r.Error == nil || r.Error.Code != -32602 || !strings.Contains(string(r.Error.Data), "a:none") {
			t.Errorf("got %s", r.Body)
		}
	},
	mcp.URLErrorCode: func(t *testing.T, v *interview) {
		v.replies["visit"].Asks(t, "elicitation-1")
		has(t, "the question", string(v.replies["visit"].Inputs["elicitation-1"].Params), `"mode":"url"`, `"url":"https://example.com/a"`)
	},
	mcp.ElicitationIDs: func(t *testing.T, v *interview) {
		has(t, "what the client got", v.told(), "!elicitationId", `!"e-1"`, "!notifications/elicitation")
		v.replies["url"].Asks(t, "elicitation-2")
	},
	mcp.Tasks: func(t *testing.T, v *interview) {
		has(t, "what the client got", v.told(), `!"execution"`, `!"taskSupport"`, "!related-task", `!"taskId"`, `!"tasks"`)
		has(t, "initialize", v.sent(t, "initialize"), `"tasks":{"cancel":{},"requests":{"elicitation":{"create":{}},"sampling":{"createMessage":{}}}}`)
		if v.revision.Has(mcp.Tasks) {
			has(t, "the result", v.result(t, "task"), "as a task")
		} else {
			v.replies["task"].Fails(t, 404, -32601, "") // the server's own word
			has(t, "what the server got", v.posted(), `!"task":`, "!tasks/")
		}
	},
	mcp.ResultTypes: func(t *testing.T, v *interview) {
		for _, name := range []string{"discover", "list", "complete", "end", "batch"} {
			has(t, name, v.result(t, name), `"resultType":"complete"`)
		}
		has(t, "what the server got", v.posted(), "!resultType")
	},
	mcp.CacheHints: func(t *testing.T, v *interview) {
		for _, name := range []string{"discover", "list"} {
			has(t, name, v.result(t, name), `"ttlMs":`, `"cacheScope":`)
		}
	},
	mcp.ServerInfoMeta: func(t *testing.T, v *interview) {
		has(t, "the result", v.result(t, "end"), `"io.modelcontextprotocol/serverInfo":{"name":"rawserver"`)
	},

	mcp.RequestMeta: func(t *testing.T, v *interview) {
		has(t, "what the server got", v.posted(), "!io.modelcontextprotocol/protocolVersion", "!io.modelcontextprotocol/clientInfo",
			"!io.modelcontextprotocol/clientCapabilities", "!io.modelcontextprotocol/logLevel")
	},
	mcp.InputResponses: func(t *testing.T, v *interview) {
		has(t, "what the server got", v.posted(), "!inputResponses", "!requestState")
	},
	mcp.Extensions: func(t *testing.T, v *interview) {
		has(t, "initialize", v.sent(t, "initialize"), `"example/x"`, "!io.modelcontextprotocol/tasks")
	},
	mcp.RootsChanged: func(t *testing.T, v *interview) {
		has(t, "initialize", v.sent(t, "initialize"), `"roots":{}`, "!listChanged")
	},
	mcp.CompletionContext: func(t *testing.T, v *interview) {
		has(t, "the result", v.result(t, "complete"), `"values":["x"]`)
		want := "!context"
		if v.revision.Has(mcp.CompletionContext) {
			want = `"context":{"arguments":{"b":"c"}}`
		}
		has(t, "completion/complete", v.sent(t, "completion/complete"), want, `"ref":{`, `"argument":{`)
	},
	mcp.Elicitation: func(t *testing.T, v *interview) {
		has(t, "initialize", v.sent(t, "initialize"), `"elicitation":{"form":{},"url":{}}`)
		has(t, "the answer", string(v.asked["form"].Result), `"action":"accept"`, `"size":"l"`)
	},
	mcp.ElicitationModes: func(t *testing.T, v *interview) {
		has(t, "the answer", string(v.asked["url"].Result), `{"action":"accept"}`)
	},
	mcp.MultiSelect: func(t *testing.T, v *interview) {
		want := `!"more"`
		if v.revision.Has(mcp.MultiSelect) {
			want = `"more":["x"]`
		}
		has(t, "the answer", string(v.asked["form"].Result), want)
	},
	mcp.SamplingBlocks: func(t *testing.T, v *interview) {
		want := `"content":{"type":"text","text":"one\ntwo"}`
		if v.revision.Has(mcp.SamplingBlocks) {
			want = `"content":[{"text":"one","type":"text"},{"text":"two","type":"text"}]`
		}
		has(t, "the answer", string(v.asked["sampling"].Result), want)
	},
	mcp.SamplingToolUse: func(t *testing.T, v *interview) { v.unreadable(t, mcp.SamplingToolUse, "tool_use") },
	mcp.SamplingAudio:   func(t *testing.T, v *interview) { v.unreadable(t, mcp.SamplingAudio, "audio") },

	mcp.ToolAnnotations: func(t *testing.T, v *interview) {
		has(t, "the list", v.result(t, "list"), `"annotations":{"readOnlyHint":true}`)
	},
	mcp.AudioContent: func(t *testing.T, v *interview) { has(t, "the result", v.result(t, "end"), `"type":"audio"`) },
	mcp.ProgressMessages: func(t *testing.T, v *interview) {
		notes := v.replies["form"].Notifications("notifications/progress")
		if len(notes) != 1 {
			t.Fatalf("%d notifications", len(notes))
		}
		has(t, "the notification", string(notes[0].Params), `"message":"half"`, `"progressToken":"mine"`)
	},
	mcp.CompletionsCapability: func(t *testing.T, v *interview) {
		has(t, "the capabilities", v.result(t, "discover"), "!completions")
	},
	mcp.StructuredContent: func(t *testing.T, v *interview) {
		has(t, "the list", v.result(t, "list"), `"outputSchema":{"type":"object"}`)
		has(t, "the result", v.result(t, "end"), `"structuredContent":{"n":1}`)
	},
	mcp.ResourceLinks: func(t *testing.T, v *interview) { has(t, "the result", v.result(t, "end"), everyContent) },
	mcp.Titles: func(t *testing.T, v *interview) {
		has(t, "the list", v.result(t, "list"), `"title":"All of it"`, `"a/b":1`)
	},
	mcp.Icons: func(t *testing.T, v *interview) { has(t, "the list", v.result(t, "list"), `"icons":[{"src":`) },
	mcp.EnumTitles: func(t *testing.T, v *interview) {
		has(t, "the question", string(v.replies["form"].Inputs["elicitation-1"].Params), `"oneOf":[{"const":"s","title":"Small"}`, `"enumNames":["Cat","Dog"]`)
	},
	mcp.FormDefaults: func(t *testing.T, v *interview) {
		has(t, "the question", string(v.replies["form"].Inputs["elicitation-1"].Params), `"default":"s"`)
	},
}

// unreadable: an answer that the server's revision cannot express is asked for
// again, and goes through where it can.
func (v *interview) unreadable(t *testing.T, f mcp.Feature, kind string) {
	server := newServer(t, rawserver.Settings{Version: v.revision.String()})
	server.Tool("sample", func(c *rawserver.Call) {
		answer := c.Ask("sampling/createMessage", samplingText)
		c.Text(string(answer.Result))
	})
	h := Start(t, Options{Upstream: to(server)})
	block := map[string]any{"type": kind, "data": "AA==", "mimeType": "audio/wav", "id": "1", "name": "n", "input": map[string]any{}}
	reply := h.Retry(t, h.Send(t, CallTool("sample", nil)), Answers{"sampling-1": map[string]any{"role": "assistant", "model": "m", "content": block}})
	if v.revision.Has(f) {
		has(t, "what the server got", reply.Text(t), `"type":"`+kind+`"`)
		return
	}
	reply.Asks(t, "sampling-1")
	has(t, "what the server got", h.Retry(t, reply, Answers{"sampling-1": Said("words")}).Text(t), "words")
}

// TestDifferences: each row of the table of revisions, with a server of each
// legacy revision.
func TestDifferences(t *testing.T) {
	t.Parallel()
	for revision := mcp.R20241105; revision.Legacy(); revision++ {
		t.Run(revision.String(), func(t *testing.T) {
			t.Parallel()
			v := converse(t, revision)
			for f, d := range mcp.Differences() {
				t.Run(d.What, func(t *testing.T) {
					check := rows[mcp.Feature(f)]
					if check == nil {
						t.Fatalf("nothing shows the row %q", d.What)
					}
					check(t, v)
				})
			}
			for name, r := range v.replies {
				if r.Result != nil && !json.Valid(r.Result) {
					t.Errorf("%s: %s", name, r.Result)
				}
			}
		})
	}
}
