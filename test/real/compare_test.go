package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

// decoded is JSON as the clients keep it.
func decoded(t *testing.T, text string) any {
	t.Helper()
	value, err := peer.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// modern is a result as the modern revision has it.
func modern(members string) string {
	return `{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}},` + members + `}`
}

func TestCompareSaysWhatDiffers(t *testing.T) {
	const text = `"content":[{"type":"text","text":"hello"}]`
	one := func(o peer.Outcome) side { return side{outcomes: []peer.Outcome{o}} }
	call := func(result string) peer.Outcome {
		return peer.Outcome{Method: "tools/call", Result: decoded(t, result)}
	}
	progressed := func(result string, steps ...string) peer.Outcome {
		o := call(result)
		for _, step := range steps {
			o.Progress = append(o.Progress, decoded(t, step))
		}
		return o
	}
	asked := func(result, method string) peer.Outcome {
		o := call(result)
		o.Asked = []peer.Question{{Method: method, Params: map[string]any{}}}
		return o
	}
	logged := func(o peer.Outcome) peer.Outcome {
		o.Log = []any{decoded(t, `{"level":"info","data":"x"}`)}
		return o
	}
	for name, c := range map[string]struct {
		direct, modern side
		masks          []mask
		want           string // a part of the difference; "" for none
	}{
		"the same":                {direct: one(call(`{` + text + `}`)), modern: one(call(modern(text)))},
		"another text":            {direct: one(call(`{` + text + `}`)), modern: one(call(modern(`"content":[{"type":"text","text":"hell"}]`))), want: ".result.content[0].text"},
		"another number":          {direct: one(call(`{"n":1}`)), modern: one(call(modern(`"n":1.0`))), want: ".result.n"},
		"a member is lost":        {direct: one(call(`{"n":1,"m":2}`)), modern: one(call(modern(`"n":1`))), want: "through Holdfast nothing"},
		"a member is new":         {direct: one(call(`{"n":1}`)), modern: one(call(modern(`"n":1,"m":2`))), want: "directly nothing"},
		"no resultType":           {direct: one(call(`{"n":1}`)), modern: one(call(`{"n":1}`)), want: "resultType"},
		"no serverInfo":           {direct: one(call(`{"n":1}`)), modern: one(call(`{"resultType":"complete","n":1}`)), want: "serverInfo"},
		"progress is lost":        {direct: one(progressed(`{"n":1}`, `{"progress":1}`, `{"progress":2}`)), modern: one(progressed(modern(`"n":1`), `{"progress":2}`)), want: ".progress"},
		"a question is lost":      {direct: one(asked(`{"n":1}`, "elicitation/create")), modern: one(call(modern(`"n":1`))), want: ".asked"},
		"roots asked at any time": {direct: one(asked(`{"n":1}`, "roots/list")), modern: one(call(modern(`"n":1`)))},
		"a log message too many":  {direct: one(call(`{"n":1}`)), modern: one(logged(call(modern(`"n":1`)))), want: ".log"},
		"an error for a result":   {direct: one(call(`{"n":1}`)), modern: one(peer.Outcome{Method: "tools/call", Error: map[string]any{"code": 1}}), want: ".error"},
		"no answer":               {direct: one(call(`{"n":1}`)), modern: side{err: errors.New("no end")}, want: "fails through Holdfast: no end"},
		"no answers":              {direct: side{err: errors.New("no end")}, modern: side{err: errors.New("no end")}, want: "fails on both sides"},
		"fewer outcomes":          {direct: one(call(`{"n":1}`)), modern: side{}, want: "through Holdfast 0"},
		"masked": {
			direct: one(call(`{"text":"created at 1:02:03 PM."}`)), modern: one(call(modern(`"text":"created at 11:12:13 AM."`))), masks: []mask{timeOfDay},
		},
		"not masked": {
			direct: one(call(`{"text":"created at 1:02:03 PM."}`)), modern: one(call(modern(`"text":"created at 1:02:04 PM."`))), want: ".result.text",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := compare(played{step: step{masks: c.masks}, direct: c.direct, modern: c.modern}).difference
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("difference: got %q, want %q in it", got, c.want)
			}
		})
	}
}

func TestRevisionsAreBroughtTogether(t *testing.T) {
	const info = `{"name":"s","version":"1"}`
	for name, c := range map[string]struct{ method, direct, through string }{
		"hello": {
			"initialize", `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"list":{}}},"serverInfo":` + info + `,"instructions":"i"}`,
			modern(`"ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"dev.holdfast/dialects":{"saga":{}},"io.modelcontextprotocol/tasks":{}}},"instructions":"i"`),
		},
		"tools": {
			"tools/list", `{"tools":[{"name":"a","execution":{"taskSupport":"forbidden"}}]}`, modern(`"ttlMs":10,"cacheScope":"public","tools":[{"name":"a"}]`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			direct := fromLegacy(peer.Outcome{Method: c.method, Result: decoded(t, c.direct)})
			through, err := fromModern(peer.Outcome{Method: direct.Method, Result: decoded(t, c.through)})
			if err != nil {
				t.Fatal(err)
			}
			if difference := diff("", tree(direct), tree(through)); difference != "" {
				t.Error(difference)
			}
		})
	}
	t.Run("no ttlMs", func(t *testing.T) {
		if _, err := fromModern(peer.Outcome{Method: "tools/list", Result: decoded(t, modern(`"cacheScope":"public","tools":[]`))}); err == nil {
			t.Error("a list without ttlMs passes")
		}
	})
	t.Run("resource not found", func(t *testing.T) {
		o := fromLegacy(peer.Outcome{Method: "resources/read", Error: decoded(t, `{"code":-32002,"message":"m"}`)})
		if difference := diff("", decoded(t, `{"code":-32602,"message":"m"}`), o.Error); difference != "" {
			t.Error(difference)
		}
	})
}

func TestMasksHideNoMoreThanTheyShould(t *testing.T) {
	const id = "0dd83b8e-6c1c-4d43-9c58-4b8a4f1f2a10"
	log := func(texts ...string) peer.Outcome {
		var o peer.Outcome
		for _, text := range texts {
			o.Log = append(o.Log, decoded(t, text))
		}
		return o
	}
	result := func(text string) peer.Outcome { return peer.Outcome{Result: decoded(t, text)} }
	for name, c := range map[string]struct {
		mask mask
		o    peer.Outcome
		want peer.Outcome
	}{
		"time in a blob": {timeOfDay, result(`{"blob":"Y3JlYXRlZCBhdCAxOjAyOjAzIFBNIQ=="}`), result(`{"blob":"Y3JlYXRlZCBhdCA8dGltZT4h"}`)},
		"session":        {sessionID, result(`["for session ` + id + ` at"]`), result(`["for session <id> at"]`)},
		"another id":     {sessionID, result(`["file ` + id + `"]`), result(`["file ` + id + `"]`)},
		"levels": {
			logMessages,
			log(`{"level":"alert","data":"Alert level-message - SessionId `+id+`"}`, `{"level":"debug","data":"Debug-level message - SessionId `+id+`"}`),
			log(`{"level":"<level>","data":"<level>-level message - SessionId <id>"}`),
		},
		"invented": {
			invented, result(`{"content":[{"type":"text","text":"7 customers"}],"customers":[{"name":"A","size":3},{"name":"B","size":4}],"more":null}`),
			result(`{"content":[{"type":"text","text":"<text>"}],"customers":[{"name":"<text>","size":"<number>"}],"more":null}`),
		},
		"levels over stdio": {
			logMessages, log(`{"level":"notice","data":"Notice-level message"}`), log(`{"level":"<level>","data":"<level>-level message"}`),
		},
		"a level that is not the text's": {
			logMessages, log(`{"level":"debug","data":"Error-level message - SessionId ` + id + `"}`),
			log(`{"level":"debug","data":"Error-level message - SessionId ` + id + `"}`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.mask.apply(&c.o)
			if difference := diff("", tree(c.want), tree(c.o)); difference != "" {
				t.Error(difference)
			}
		})
	}
}
