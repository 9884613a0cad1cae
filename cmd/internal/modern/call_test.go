package modern

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

const ask = `"resultType":"input_required","inputRequests":{"b":{"method":"elicitation/create","params":{"message":"?"}},"a":{"method":"elicitation/create"}}`

func TestCallRetriesWithTheAnswersAndTheExactState(t *testing.T) {
	client, s := play(t,
		result(ask+`,"requestState":"\u0061 \"b\" =="`),
		result(ask),
		result(`"resultType":"complete","content":[{"type":"text","text":"done"}]`),
	)
	var person answers
	got, err := client.Call(t.Context(), Tool{Name: "größe"}, jsontext.Value(`{"n": 1.0}`), &person)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Content) != 1 || string(got.Content[0]) != `{"type":"text","text":"done"}` {
		t.Errorf("got content %s", got.Content)
	}
	if want := []string{"b", "a", "b", "a"}; !reflect.DeepEqual(person.asked, want) {
		t.Errorf("asked %q, want %q, in the order of the wire", person.asked, want)
	}
	ids := map[string]bool{}
	for i, round := range s.posted {
		ids[string(round.ID)] = true
		if arguments := Get(round.Params, "arguments"); string(arguments) != `{"n": 1.0}` {
			t.Errorf("round %d: arguments %s", i, arguments)
		}
		if meta, first := Get(round.Params, "_meta"), Get(s.posted[0].Params, "_meta"); string(meta) != string(first) {
			t.Errorf("round %d: _meta %s, want %s", i, meta, first)
		}
		for name, want := range map[string]string{
			"Mcp-Name": "=?base64?Z3LDtsOfZQ==?=", "Mcp-Method": "tools/call", "Mcp-Protocol-Version": "2026-07-28",
			"Accept": "application/json, text/event-stream", "Content-Type": "application/json",
		} {
			if got := round.header.Values(name); !slices.Equal(got, []string{want}) {
				t.Errorf("round %d: %s is %q, want %q", i, name, got, want)
			}
		}
	}
	if len(ids) != 3 {
		t.Errorf("%d ids in 3 rounds, want 3", len(ids))
	}
	const told = `{"b":{"action":"accept","content":{"for":"b"}},"a":{"action":"accept","content":{"for":"a"}}}`
	for i, want := range []struct{ responses, state string }{{"", ""}, {told, `"\u0061 \"b\" =="`}, {told, ""}} {
		if got := string(Get(s.posted[i].Params, "inputResponses")); got != want.responses {
			t.Errorf("round %d: inputResponses %s, want %s", i, got, want.responses)
		}
		if got := string(Get(s.posted[i].Params, "requestState")); got != want.state {
			t.Errorf("round %d: requestState %s, want %s", i, got, want.state)
		}
	}
}

func TestCallComesBackWhenNothingIsAsked(t *testing.T) {
	client, s := play(t,
		result(`"resultType":"input_required","requestState":"one"`),
		result(`"resultType":"input_required","inputRequests":{},"requestState":"two"`),
		result(`"content":[]`),
	)
	var listener heard
	client.Listener = &listener
	if _, err := client.Call(t.Context(), Tool{Name: "x"}, nil, &answers{}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"waiting", "waiting"}; !reflect.DeepEqual(listener.words, want) {
		t.Errorf("heard %q, want %q", listener.words, want)
	}
	for i, want := range []string{"", `"one"`, `"two"`} {
		if got := string(Get(s.posted[i].Params, "requestState")); got != want {
			t.Errorf("round %d: requestState %s, want %s", i, got, want)
		}
		if got := Get(s.posted[i].Params, "inputResponses"); got != nil {
			t.Errorf("round %d: inputResponses %s, although nothing was asked", i, got)
		}
	}
}

func TestCallGivesUpAfterItsRounds(t *testing.T) {
	client, s := play(t, slices.Repeat([]reply{result(ask)}, maxRounds+1)...)
	if _, err := client.Call(t.Context(), Tool{Name: "x"}, nil, &answers{}); !errors.Is(err, ErrRounds) {
		t.Errorf("got %v, want ErrRounds", err)
	}
	if len(s.posted) != maxRounds {
		t.Errorf("%d requests, want %d", len(s.posted), maxRounds)
	}
}

func TestCallListsAgainWhenItsHeadersAreRefused(t *testing.T) {
	const tools = `"tools":[{"name":"x","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"R"}}}}]`
	client, s := play(t, refusal(400, codeHeaderMismatch, "Mcp-Param-R is missing"), result(tools), result(`"content":[]`))
	if _, err := client.Call(t.Context(), Tool{Name: "x"}, jsontext.Value(`{"r":"eu"}`), &answers{}); err != nil {
		t.Fatal(err)
	}
	if got := s.posted[2].header.Get("Mcp-Param-R"); got != "eu" || s.posted[0].header.Get("Mcp-Param-R") != "" {
		t.Errorf("Mcp-Param-R is %q in the end", got)
	}

	client, s = play(t, refusal(400, codeHeaderMismatch, "no"), result(`"tools":[{"name":"x","inputSchema":{}}]`))
	var refused *RPCError
	if _, err := client.Call(t.Context(), Tool{Name: "x"}, nil, &answers{}); !errors.As(err, &refused) || refused.Code != codeHeaderMismatch {
		t.Errorf("got %v, want the server's error", err)
	}
	if len(s.posted) != 2 {
		t.Errorf("%d requests, want 2: nothing changed, so nothing is repeated", len(s.posted))
	}
}

func TestCallRefusesWhatTheRevisionForbids(t *testing.T) {
	message := func(text string) string { return "data: " + text + "\n\n" }
	for name, answer := range map[string]reply{
		"nothing to come back for": result(`"resultType":"input_required"`),
		"not declared":             result(`"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"}}`),
		"unknown question":         result(`"resultType":"input_required","inputRequests":{"k":{"method":"tools/call"}}`),
		"requests that are a list": result(`"resultType":"input_required","inputRequests":[]`),
		"unknown result type":      result(`"resultType":"task"`),
		"result type no text":      result(`"resultType":1`),
		"another id":               {body: `{"jsonrpc":"2.0","id":77,"result":{}}`},
		"id as text":               {body: `{"jsonrpc":"2.0","id":"ID","result":{}}`},
		"no result":                {body: `{"jsonrpc":"2.0","id":ID}`},
		"result no object":         {body: `{"jsonrpc":"2.0","id":ID,"result":[]}`},
		"no JSON-RPC":              {body: `{"id":ID,"result":{}}`},
		"no JSON":                  {body: `<html>`},
		"a batch":                  {body: `[{"jsonrpc":"2.0","id":ID,"result":{}}]`},
		"duplicate names":          {body: `{"jsonrpc":"2.0","id":ID,"result":{},"result":{}}`},
		"another type":             {kind: "text/html", body: "hello"},
		"request on the stream":    stream(message(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)),
		"no answer on the stream":  stream(message(`{"jsonrpc":"2.0","method":"notifications/x"}`)),
		"empty stream":             stream(),
		"no JSON on the stream":    stream(message(`hello`)),
		"stranger on the stream":   stream(message(`{"jsonrpc":"2.0","id":99,"result":{}}`)),
		"request as the answer":    {body: `{"jsonrpc":"2.0","id":ID,"method":"ping"}`},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := play(t, answer)
			if got, err := client.Call(t.Context(), Tool{Name: "x"}, nil, &answers{}); !errors.Is(err, ErrBroken) {
				t.Errorf("got %s and %v, want ErrBroken", got.Raw, err)
			}
		})
	}
}

func TestCallHearsWhatBelongsToIt(t *testing.T) {
	progress := func(token, message string) string {
		return `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":1,"message":"` + message + `"}}` + "\n\n"
	}
	log := `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"a":1}}}` + "\n\n"
	answer := `data: {"jsonrpc":"2.0","id":ID,"result":{"content":[]}}` + "\n\n"
	events := stream(": keep-alive\n\n", progress(`"progress-1"`, "mine"), progress(`"progress-2"`, "foreign"), progress(`1`, "number"),
		log, "event: other\ndata: hello\n\n", answer)
	client, s := play(t, events, events)
	var listener heard
	client.Listener, client.Progress, client.LogLevel = &listener, true, "info"
	if _, err := client.Call(t.Context(), Tool{Name: "x"}, nil, &answers{}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"progress 1 mine", `log info {"a":1}`}; !reflect.DeepEqual(listener.words, want) {
		t.Errorf("heard %q, want %q", listener.words, want)
	}
	meta := string(Get(s.posted[0].Params, "_meta"))
	for _, want := range []string{`"progressToken":"progress-1"`, `"io.modelcontextprotocol/logLevel":"info"`} {
		if !strings.Contains(meta, want) {
			t.Errorf("_meta %s lacks %s", meta, want)
		}
	}

	listener.words, client.Progress, client.LogLevel = nil, false, ""
	if _, err := client.Call(t.Context(), Tool{Name: "x"}, nil, &answers{}); err != nil {
		t.Fatal(err)
	}
	if len(listener.words) != 0 {
		t.Errorf("heard %q, although nothing was asked for", listener.words)
	}
	if meta := string(Get(s.posted[1].Params, "_meta")); strings.Contains(meta, "progressToken") || strings.Contains(meta, "logLevel") {
		t.Errorf("_meta %s asks for what nobody wants", meta)
	}
}
