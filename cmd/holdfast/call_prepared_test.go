package main

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/cmd/internal/modern"
)

func TestPreparedResult(t *testing.T) {
	for _, test := range []struct{ method, answer, want string }{
		{modern.MethodElicit, `{"name":"x"}`, `{"action":"accept","content":{"name":"x"}}`},
		{modern.MethodElicit, `{}`, `{"action":"accept","content":{}}`},
		{modern.MethodElicit, `{"action":"decline"}`, `{"action":"decline"}`},
		{modern.MethodElicit, `{"action":"accept","content":{"a":1}}`, `{"action":"accept","content":{"a":1}}`},
		{modern.MethodElicit, `{"action":"accept","other":1}`, `{"action":"accept","content":{"action":"accept","other":1}}`},
		{modern.MethodElicit, `cancel`, `{"action":"cancel"}`},
		{modern.MethodElicit, `"accept"`, `{"action":"accept"}`},
		{modern.MethodElicit, `maybe`, ""},
		{modern.MethodElicit, `[1]`, ""},
		{modern.MethodCreateMessage, `Roses "red"`, `{"role":"assistant","content":{"type":"text","text":"Roses \"red\""},"model":"human","stopReason":"endTurn"}`},
		{modern.MethodCreateMessage, `"a\nb"`, `{"role":"assistant","content":{"type":"text","text":"a\nb"},"model":"human","stopReason":"endTurn"}`},
		{modern.MethodCreateMessage, `{"role":"assistant"}`, `{"role":"assistant"}`},
		{modern.MethodListRoots, `[{"uri":"file:///a"}]`, `{"roots":[{"uri":"file:///a"}]}`},
		{modern.MethodListRoots, `{"roots":[]}`, `{"roots":[]}`},
		{modern.MethodListRoots, `none`, ""},
	} {
		got, err := preparedResult(test.method, test.answer)
		if string(got) != test.want || (err != nil) != (test.want == "") || err != nil && !errors.Is(err, errMisused) {
			t.Errorf("%s, %s: got %s, %v; want %s", test.method, test.answer, got, err, test.want)
		}
	}
}

func TestPreparedAnswersAreUsedOnceEach(t *testing.T) {
	var prepared preparedAnswers
	for _, flag := range []string{"k=1", "k=2", "j=3=4"} {
		if err := prepared.addFlag(flag); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, key := range []string{"k", "k", "k", "unknown"} {
		answer, ok := prepared.take(key)
		if !ok {
			answer = "none"
		}
		got = append(got, answer)
	}
	if want := []string{"1", "2", "none", "none"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if unused := prepared.unused(); !reflect.DeepEqual(unused, []string{"j"}) || !prepared.known("k") {
		t.Errorf("unused %q", unused)
	}
	for _, text := range []string{`[]`, `{"a":1} x`, `{"a":1,"a":2}`, ``} {
		if err := prepared.addFile(answerFile(t, text)); err == nil {
			t.Errorf("a file with %q was taken", text)
		}
	}
}

func TestCallArguments(t *testing.T) {
	const schema = `{"properties":{"s":{"type":"string"},"n":{"type":"integer"},"o":{"type":["string","null"]},"u":{"type":["string","number"]}}}`
	args := func(pairs ...string) []callArg {
		var list []callArg
		for _, pair := range pairs {
			name, value, _ := strings.Cut(pair, "=")
			list = append(list, callArg{name, value})
		}
		return list
	}
	for _, test := range []struct {
		object string
		args   []callArg
		want   string // "" means an error
	}{
		{"", nil, `{}`},
		{"", args("s=1", "n=1", "o=1", "u=1", "x=1"), `{"s":"1","n":1,"o":"1","u":1,"x":1}`},
		{"", args("n=one", `x={"a": [1]}`, "y=a=b"), `{"n":"one","x":{"a": [1]},"y":"a=b"}`},
		{`{"s": 5, "k": true}`, args("s=6", "x=null"), `{"s":"6","k":true,"x":null}`},
		{"", args("s=1", "s=2"), ""},
		{`[1]`, nil, ""},
		{`{"a":1} {}`, nil, ""},
	} {
		got, err := callArguments(jsontext.Value(schema), test.object, test.args)
		if string(got) != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%+v: got %s, %v", test, got, err)
		}
	}
}
