package legacy

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// parcels has every field and every kind of error.
func parcels(t testing.TB) []parcel {
	key := &Key{
		Principal: [16]byte{1, 2, 3}, Extra: []byte("extra"), ClientInfo: []byte(`{"name":"c"}`),
		Caps: capabilities(t, `{"elicitation":{"form":{}},"roots":{}}`),
	}
	list := []parcel{
		{kind: askLend, key: key, creds: Credentials{{"Authorization", "Bearer x"}, {"X-Tenant", ""}}, gone: "old"},
		{kind: askPlace, key: key, id: "s-1"},
		{kind: askHave, key: key},
		{kind: askYours, key: key, id: "s-1", version: mcp.Latest, info: []byte(`{"protocolVersion":"2025-11-25"}`), event: []byte("get-7"), holder: "aa", level: mcp.LevelInfo, eligible: 3, pushes: true, flag: true, closing: true},
		{kind: sayHave, id: "s-1", version: "2025-03-26"},
		{kind: sayUsing, flag: true, eligible: 1, level: mcp.LevelDebug, holder: "bb"},
		{kind: sayWho, number: 1, request: "aa-17"},
		{kind: sayOrphans, orphans: []Orphan{{ID: []byte("7"), Method: mcp.MethodElicit, Params: []byte(`{"a":1}`)}, {ID: []byte(`"x"`), Method: mcp.MethodRootsList}}},
		{kind: askTopic, id: "s-1", uri: "file:///ü"},
		{kind: tellMessage, id: "s-1", request: "aa-17", raw: []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)},
		{kind: sayHave, id: "s-1", number: 3, life: 1 << 60, freed: 7},
		{kind: sayYes, flag: true},
		{kind: sayLater, closing: true},
		{kind: askHeed, raw: (&parcel{kind: tellGone, id: "s-1"}).append(nil)},
		{kind: tellCreds, id: "s-1", creds: Credentials{{"Authorization", "Bearer x"}}, age: 1500, used: 1 << 60},
		{kind: tellFree, id: "s-1", life: 1 << 60, freed: 8},
		{kind: sayNone},
		{kind: sayRefused, err: &StatusError{Status: 401, Authenticate: []string{"Bearer", "Basic"}, ContentType: "text/plain", Body: []byte("no")}},
		{kind: sayRefused, err: &jsonrpc.Error{Code: -32000, Message: "no", Data: []byte(`{"n":1.0}`)}},
	}
	return list
}

func TestParcelsArriveAsTheyWereSent(t *testing.T) {
	for _, p := range parcels(t) {
		text := p.append(nil)
		got, err := readParcel(text)
		if err != nil {
			t.Fatalf("%q: %v", p.kind, err)
		}
		if got.key != nil {
			if string(got.key.appendText(nil)) != string(p.key.appendText(nil)) || !bytes.Equal(got.key.ClientInfo, p.key.ClientInfo) {
				t.Errorf("%q: key %+v, want %+v", p.kind, got.key, p.key)
			}
			got.key, p.key = nil, nil
		}
		if !reflect.DeepEqual(got, p) {
			t.Errorf("%q: got %+v, want %+v", p.kind, got, p)
		}
		// What a newer replica adds is skipped.
		if _, err := readParcel(append(text, 'Z', 3, 1, 2, 3)); err != nil {
			t.Errorf("%q with a field more: %v", p.kind, err)
		}
		for cut := range text[:max(len(text)-1, 0)] {
			_, _ = readParcel(text[:cut]) // must not panic
		}
	}
}

// Errors keep what a caller of Acquire decides on.
func TestErrorsPassBetweenReplicas(t *testing.T) {
	for _, want := range sentErrors {
		p, err := readParcel((&parcel{kind: sayRefused, err: want}).append(nil))
		if err != nil || !errors.Is(p.err, want) {
			t.Errorf("%v arrives as %v, %v", want, p.err, err)
		}
	}
	p, err := readParcel((&parcel{kind: sayRefused, err: errors.New("something else")}).append(nil))
	if err != nil || !errors.Is(p.err, ErrUnreachable) || !strings.Contains(p.err.Error(), "something else") {
		t.Errorf("another error arrives as %v, %v", p.err, err)
	}
}

func TestParcelsThatNoReplicaSends(t *testing.T) {
	key := string((&parcel{kind: 0, key: &Key{Caps: capabilities(t, "{}")}}).append(nil)[2:])
	for name, text := range map[string]string{
		"empty":                 "",
		"another version":       "\x02n",
		"no kind":               "\x01",
		"cut field":             "\x01ns\x05abc",
		"cut length":            "\x01ns\x80",
		"huge length":           "\x01ns\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"question without key":  "\x01L",
		"key without principal": "\x01LC\x02{}",
		"capabilities not canonical": "\x01LP\x10" + strings.Repeat("p", 16) +
			"C\x03{ }",
		"capabilities no JSON": "\x01LP\x10" + strings.Repeat("p", 16) + "C\x01{",
		"short principal":      "\x01LP\x01p",
		"id with a line break": "\x01hs\x05a\r\nb:",
		"header name":          "\x01L" + key + "a\x04a b\x00",
		"header without name":  "\x01L" + key + "a\x02\x00b",
		"version":              "\x01hs\x01av\x0a2026-07-28",
		"level":                "\x01ul\x01\x09",
		"number in two":        "\x01un\x02\x80\x00\x00",
		"session without id":   "\x01h",
		"refusal without why":  "\x01r",
		"orphan no request":    "\x01oo\x02{}",
		"large id":             "\x01us" + "\x81\x40" + strings.Repeat("x", maxID+1),
	} {
		if p, err := readParcel([]byte(text)); !errors.Is(err, errParcel) {
			t.Errorf("%s: got %+v, %v; want errParcel", name, p, err)
		}
	}
}

func FuzzParcel(f *testing.F) {
	for _, p := range parcels(f) {
		f.Add(p.append(nil))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := readParcel(text)
		if err != nil {
			if !errors.Is(err, errParcel) {
				t.Errorf("an error that is not named: %v", err)
			}
			return
		}
		again, err := readParcel(p.append(nil))
		if err != nil {
			t.Fatalf("what was read is not read again: %v", err)
		}
		if again.kind != p.kind || again.id != p.id || again.request != p.request || len(again.orphans) != len(p.orphans) || len(again.creds) != len(p.creds) {
			t.Errorf("got %+v, want %+v", again, p)
		}
	})
}
