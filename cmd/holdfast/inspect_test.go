package main

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
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
			Survey{Transport: "streamable-http", Revision: "2025-06-18", SessionIDs: true, Answers: "streams", PushesOutside: new(false)}, "its streams cannot be resumed"},
		{"JSON and no sessions", rawserver.Settings{JSON: true, NoSession: true, NoGET: true},
			Survey{Transport: "streamable-http", Revision: "2025-11-25", Answers: "json", PushesOutside: new(false)}, "is not known before one asks something"},
		{"HTTP+SSE", rawserver.Settings{Transport: rawserver.SSE, Version: "2024-11-05"},
			Survey{Transport: "http+sse", Revision: "2024-11-05", Answers: "one stream", PushesOutside: new(true)}, "one event stream for each caller"},
		{"HTTP+SSE of today", rawserver.Settings{Transport: rawserver.SSE},
			Survey{Transport: "http+sse", Revision: "2025-11-25", Answers: "one stream", PushesOutside: new(true)}, "its questions name no call"},
		{"a command", rawserver.Settings{Transport: rawserver.Stdio},
			Survey{Transport: "stdio", Revision: "2025-11-25", Answers: "one stream", PushesOutside: new(true)}, "one process for each caller"},
		{"a command of old", rawserver.Settings{Transport: rawserver.Stdio, Version: "2024-11-05"},
			Survey{Transport: "stdio", Revision: "2024-11-05", Answers: "one stream", PushesOutside: new(true)}, "a call that its replica loses runs again where that is harmless"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := shown(t, tt.settings)
			code, out, problems := inspected(t, append([]string{"--json"}, place(s)...)...)
			if code != exitDone {
				t.Fatalf("exit %d: %s", code, problems)
			}
			var got Survey
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatal(err)
			}
			if got.Era != "legacy" || got.Transport != tt.want.Transport || got.Revision != tt.want.Revision || got.SessionIDs != tt.want.SessionIDs ||
				got.GETStream != tt.want.GETStream || got.Answers != tt.want.Answers || got.EventIDs != tt.want.EventIDs || !reflect.DeepEqual(got.PushesOutside, tt.want.PushesOutside) {
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
			_, out, _ = inspected(t, place(s)...)
			for _, want := range []string{"revision " + tt.want.Revision + ", over " + tt.want.Transport, "look    yes", "study   -", "required"} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			s.Wait("the end of the sessions", func() bool { return len(s.Sessions()) == 0 && s.Bridges() == 0 || tt.settings.NoSession })
		})
	}
}

// place are the arguments that say where a server is.
func place(s *rawserver.Server) []string {
	if s.URL != "" {
		return []string{s.URL}
	}
	return append([]string{"--"}, s.Command(os.Args[0], asServer)...)
}

// What a server asks by itself is seen over each transport, and not answered.
func TestInspectOfAServerThatAsks(t *testing.T) {
	for _, transport := range []rawserver.Transport{rawserver.Streamable, rawserver.SSE, rawserver.Stdio} {
		t.Run("over "+string(transport), func(t *testing.T) {
			s := shown(t, rawserver.Settings{Transport: transport})
			s.Initialized(func(session *rawserver.Session) { session.Push("roots/list", "") })
			code, out, problems := inspected(t, append([]string{"--json"}, place(s)...)...)
			var got Survey
			if err := json.Unmarshal([]byte(out), &got); code != exitDone || err != nil {
				t.Fatalf("exit %d, %v: %s", code, err, problems)
			}
			if !got.AsksByItself || got.PushesOutside == nil || !*got.PushesOutside || !strings.Contains(strings.Join(got.Holdfast, "\n"), "waits for the caller's next call") {
				t.Errorf("got %+v", got)
			}
			for _, answer := range s.Responses() {
				if answer.Error == nil {
					t.Errorf("it was answered %s", answer.Result)
				}
			}
		})
	}
}

// A command has what is named of the environment, and no more; what it says last
// is told where it ends.
func TestInspectEnvironment(t *testing.T) {
	s := shown(t, rawserver.Settings{Transport: rawserver.Stdio})
	args := append([]string{"--"}, append(s.Command(os.Args[0], asServer), "X_TOKEN")...)
	var out, problems bytes.Buffer
	environ := []string{"X_TOKEN=s3cret"}
	if code := run(t.Context(), append([]string{"inspect", "--env", "X_TOKEN"}, args...), environ, strings.NewReader(""), &out, &problems); code != exitDone {
		t.Errorf("exit %d: %s", code, &problems)
	}
	problems.Reset()
	if code := run(t.Context(), append([]string{"inspect"}, args...), environ, strings.NewReader(""), &out, &problems); code != exitFailed ||
		!strings.Contains(problems.String(), "exit status 3") || !strings.Contains(problems.String(), "X_TOKEN is not set") {
		t.Errorf("exit %d: %s", code, &problems)
	}
	if all := out.String() + problems.String(); strings.Contains(all, "s3cret") {
		t.Errorf("the variable's value is in\n%s", all)
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
