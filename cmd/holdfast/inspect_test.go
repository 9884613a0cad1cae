package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/modernserver"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

func inspected(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, problems bytes.Buffer
	code = run(t.Context(), append([]string{"inspect"}, args...), []string{"PATH=/usr/bin:/bin"}, strings.NewReader(""), &out, &problems)
	return code, out.String(), problems.String()
}

// shown is a server with something of everything.
func shown(t *testing.T, settings rawserver.Settings) *rawserver.Server {
	t.Helper()
	s := rawserver.New(t, settings)
	never := func(*rawserver.Call) { t.Error("a tool was called") }
	s.Declare("look", `{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, never)
	s.Declare("delete", `{"name":"delete","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true,"idempotentHint":false}}`, never)
	s.Declare("study", `{"name":"study","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`, never)
	s.Handle(mcp.MethodPromptsList, func(c *rawserver.Call) { c.Result(`{"prompts":[{"name":"p"}]}`) })
	s.Handle(mcp.MethodResourcesList, func(c *rawserver.Call) {
		if strings.Contains(string(c.Params), "cursor") {
			c.Result(`{"resources":[{"uri":"a:2","name":"b"}]}`)
			return
		}
		c.Result(`{"resources":[{"uri":"a:1","name":"a"}],"nextCursor":"x"}`)
	})
	s.Handle(mcp.MethodResourceTemplates, func(c *rawserver.Call) { c.Result(`{"resourceTemplates":[]}`) })
	return s
}

func TestInspect(t *testing.T) {
	for _, tt := range []struct {
		name     string
		settings rawserver.Settings
		want     Survey
		tells    string
	}{
		{"streams with event ids", rawserver.Settings{},
			Survey{Transport: "streamable-http", Revision: "2025-11-25", SessionIDs: true, GETStream: true, Answers: "streams", EventIDs: true}, "calls survive the death of a replica"},
		{"streams without", rawserver.Settings{NoEventIDs: true, Version: "2025-06-18", NoGET: true},
			Survey{Transport: "streamable-http", Revision: "2025-06-18", SessionIDs: true, Answers: "streams"}, "its streams cannot be resumed"},
		{"JSON and no sessions", rawserver.Settings{JSON: true, NoSession: true, NoGET: true},
			Survey{Transport: "streamable-http", Revision: "2025-11-25", Answers: "json"}, "is not known before one asks something"},
		{"HTTP+SSE", rawserver.Settings{Transport: rawserver.SSE, Version: "2024-11-05"},
			Survey{Transport: "http+sse", Revision: "2024-11-05", Answers: "one stream", PushesOutside: true}, "one event stream for each caller"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := shown(t, tt.settings)
			code, out, problems := inspected(t, "--json", s.URL)
			if code != exitDone {
				t.Fatalf("exit %d: %s", code, problems)
			}
			var got Survey
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatal(err)
			}
			if got.Era != "legacy" || got.Transport != tt.want.Transport || got.Revision != tt.want.Revision || got.SessionIDs != tt.want.SessionIDs ||
				got.GETStream != tt.want.GETStream || got.Answers != tt.want.Answers || got.EventIDs != tt.want.EventIDs || got.PushesOutside != tt.want.PushesOutside {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if got.Prompts != 1 || got.Resources != 2 || got.Templates != 0 || got.OpenMillis <= 0 || got.PingMillis <= 0 || len(got.Trouble) != 0 {
				t.Errorf("got %+v", got)
			}
			var again []string
			for _, tool := range got.Tools {
				if tool.Replay {
					again = append(again, tool.Name)
				}
			}
			if len(got.Tools) != 3 || !slices.Equal(again, []string{"look"}) {
				t.Errorf("of %d tools %q may run again, want look of 3", len(got.Tools), again)
			}
			if told := strings.Join(got.Holdfast, "\n"); !strings.Contains(told, tt.tells) || !strings.Contains(told, "driven as legacy tasks: study") {
				t.Errorf("Holdfast would do\n%s\nwant %q", told, tt.tells)
			}
			_, out, _ = inspected(t, s.URL)
			for _, want := range []string{"revision " + tt.want.Revision + ", over " + tt.want.Transport, "look    yes", "study   -", "required"} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			s.Wait("the end of the sessions", func() bool { return len(s.Sessions()) == 0 || tt.settings.NoSession })
		})
	}
}

// A modern server is one that needs no Holdfast, as Holdfast itself is.
func TestInspectModern(t *testing.T) {
	s := modernserver.New(t)
	s.Handle(mcp.MethodDiscover, func(x *modernserver.Exchange) {
		x.Result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"` + mcp.MetaServerInfo + `":{"name":"new","version":"2"}}}`)
	})
	s.Handle(mcp.MethodToolsList, func(x *modernserver.Exchange) {
		x.Result(`{"resultType":"complete","tools":[{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`)
	})
	code, out, problems := inspected(t, s.URL)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, problems)
	}
	for _, want := range []string{"new 2", "modern, revision 2026-07-28", "look  yes", "pass through unchanged"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "session ids") {
		t.Errorf("a modern server has no sessions:\n%s", out)
	}
	if n := s.Count(mcp.MethodInitialize); n != 0 {
		t.Errorf("initialize was sent %d times", n)
	}
}

// A list that the server does not give is trouble, and no end of the survey.
func TestInspectTrouble(t *testing.T) {
	s := shown(t, rawserver.Settings{})
	s.Handle(mcp.MethodPromptsList, func(c *rawserver.Call) { c.Error(-32603, "out of\norder", "") })
	code, out, _ := inspected(t, s.URL)
	if code != exitDone || !strings.Contains(out, "prompts/list: ") || !strings.Contains(out, "out of order") || !strings.Contains(out, "2 resources") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

func TestInspectMisused(t *testing.T) {
	for want, args := range map[string][]string{
		"nothing to inspect":    {},
		"unexpected argument":   {"http://127.0.0.1:1/mcp", "--json"},
		"--env is for":          {"--env", "HOME", "http://127.0.0.1:1/mcp"},
		"X_TOKEN is not set":    {"--bearer-env", "X_TOKEN", "http://127.0.0.1:1/mcp"},
		"--timeout":             {"--timeout", "0s", "http://127.0.0.1:1/mcp"},
		"flag provided but not": {"--nonsense"},
	} {
		if code, _, problems := inspected(t, args...); code != exitMisused || !strings.Contains(problems, want) {
			t.Errorf("%q: exit %d: %s; want %q", args, code, problems, want)
		}
	}
	if code, _, problems := inspected(t, "http://127.0.0.1:1/mcp"); code != exitFailed || !strings.Contains(problems, "refused") {
		t.Errorf("exit %d: %s", code, problems)
	}
	if code, _, problems := inspected(t, "--", "/no/such/command"); code != exitFailed || !strings.Contains(problems, "/no/such/command") {
		t.Errorf("exit %d: %s", code, problems)
	}
}
