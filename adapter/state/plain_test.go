package state

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// parked is a token as a call with a question open and answers behind it has it.
func parked() *Token {
	t := sample()
	t.Ran = 61
	t.Position = Position{
		Session: "5b1c3f0e-9a57-4c1f-8f52-0e6d1c2b3a49",
		Version: mcp.Version20251125,
		Event:   "4a6f0b2e_1763",
		Request: "1f2e3d4c-17",
	}
	t.Asked = [3]uint32{Elicitation: 2, Sampling: 200}
	t.Inputs = []Question{
		{Key: "confirm", Method: Elicitation, Digest: [16]byte{1, 15: 2}, ID: `"q-4"`, Hinted: true, Params: []byte(`{"message":"Sure?","requestedSchema":{"type":"object"}}`)},
		{Key: "sampling-200", Method: Sampling, Digest: [16]byte{3}, ID: "5"},
		{Key: "roots-1", Method: Roots}, // the server ended its request
	}
	t.Transcript = []Answer{
		{Key: "elicitation-1", Method: Elicitation, Digest: [16]byte{4}, Value: []byte(`{"action":"accept","content":{"colour":"red"}}`)},
		{Key: "size", Method: Elicitation, Digest: [16]byte{5}, Hinted: true, Value: []byte(`{"action":"decline"}`)},
		{Key: "sampling-1", Method: Sampling, Digest: [16]byte{6}, Failed: true, Value: []byte(`{"code":-1,"message":"no"}`)},
		{Key: "roots-9", Method: Roots, Digest: [16]byte{7}, Failed: true, Brought: true, Sum: [16]byte{8, 15: 9}},
	}
	t.Method, t.Params = mcp.MethodToolsCall, []byte(`{"name":"t","arguments":{"a":1}}`)
	t.Cut, t.Released = true, true
	return t
}

// anyToken draws tokens of all shapes; where wild, also such as are not valid.
func anyToken(wild bool) *rapid.Generator[*Token] {
	return rapid.Custom(func(t *rapid.T) *Token {
		text := func(name string, most int) string {
			if wild {
				most += most / 8 // beyond the limit now and then
				return strings.Repeat("x", rapid.IntRange(0, most).Draw(t, name))
			}
			return string(rapid.SliceOfN(rapid.ByteRange('0', '9'), 0, min(most, 40)).Draw(t, name))
		}
		digest := func() (d [16]byte) {
			copy(d[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "digest"))
			return d
		}
		versions, last, open, end := revisions[:], kinds-1, `{"a":`, "}"
		if wild {
			versions, last = append(slices.Clone(versions), "2026-07-28", "x"), math.MaxUint8
			open = rapid.SampledFrom([]string{open, "[", "", "{"}).Draw(t, "open")
			end = rapid.SampledFrom([]string{end, "]", ""}).Draw(t, "end")
		}
		kind := rapid.Map(rapid.ByteRange(0, byte(last)), func(b byte) Kind { return Kind(b) })
		tok := &Token{
			Owner: rapid.String().Draw(t, "owner"), Upstream: rapid.String().Draw(t, "upstream"),
			Call: digest(), Principal: digest(), Request: digest(),
			Round: rapid.Uint32().Draw(t, "round"), Expires: rapid.Int64().Draw(t, "expires"), Ran: rapid.Uint32().Draw(t, "ran"),
			Position: Position{
				Session: text("session", MaxSession), Event: text("event", MaxEvent), Request: text("request", MaxRequest),
				Version: rapid.SampledFrom(versions).Draw(t, "version"),
			},
			Asked: [3]uint32(rapid.SliceOfN(rapid.Uint32(), 3, 3).Draw(t, "asked")),
			Cut:   rapid.Bool().Draw(t, "cut"), Released: rapid.Bool().Draw(t, "released"),
			Endpoint: text("endpoint", 16), Foreign: rapid.Bool().Draw(t, "foreign"),
		}
		if inner := text("inner", 60); tok.Foreign && inner != "" {
			tok.Inner = []byte(inner)
		}
		if rapid.Bool().Draw(t, "as a task") {
			tok.Task = `"` + text("task", MaxTask) + `"`
			if wild {
				tok.Task = rapid.SampledFrom([]string{tok.Task, `"`, "7", tok.Task[1:]}).Draw(t, "task's quotes")
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "inputs") {
			var params []byte
			if rapid.Bool().Draw(t, "asked again") {
				params = []byte(open + text("params", 60) + end)
			}
			if len(params) == 0 {
				params = nil // both mean the same
			}
			tok.Inputs = append(tok.Inputs, Question{
				Key: text("key", MaxKey), Method: kind.Draw(t, "kind"), Digest: digest(),
				ID: text("id", MaxID), Hinted: rapid.Bool().Draw(t, "hinted"), Params: params,
			})
		}
		for range rapid.IntRange(0, 3).Draw(t, "answers") {
			a := Answer{
				Key: text("key", MaxKey), Method: kind.Draw(t, "kind"), Digest: digest(),
				Hinted: rapid.Bool().Draw(t, "hinted"), Failed: rapid.Bool().Draw(t, "failed"), Brought: rapid.Bool().Draw(t, "brought"),
			}
			if a.Brought {
				a.Sum = digest()
			} else {
				a.Value = []byte(open + text("value", 60) + end)
			}
			tok.Transcript = append(tok.Transcript, a)
		}
		if rapid.Bool().Draw(t, "a handle") {
			tok.Born = rapid.Int64Range(1, math.MaxInt64).Draw(t, "born")
			tok.Away, tok.Caps = rapid.Uint32().Draw(t, "away"), rapid.Byte().Draw(t, "caps")
		}
		if rapid.Bool().Draw(t, "carried") {
			tok.Method, tok.Params = "m"+text("method", MaxMethod-1), []byte(open+text("request", 60)+end)
			if wild {
				tok.Method = rapid.SampledFrom([]string{tok.Method, ""}).Draw(t, "no method")
			}
			if len(tok.Params) == 0 {
				tok.Params = []byte("[")
			}
		}
		return tok
	})
}

func TestAnyTokenComesBack(t *testing.T) {
	r := newRing(t, NewKey())
	rapid.Check(t, func(t *rapid.T) {
		want := anyToken(false).Draw(t, "token")
		if !want.Valid() {
			t.Fatalf("not valid: %+v", want)
		}
		got, err := r.Open(r.Seal(nil, want), math.MaxInt)
		if err != nil || !reflect.DeepEqual(&got, want) {
			t.Fatalf("got %+v, %v; want %+v", got, err, want)
		}
	})
}

// Valid says beforehand what Open will say.
func TestValidIsWhatOpens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyToken(true).Draw(t, "token")
		var got Token
		ok := got.readPlain(want.appendPlain(nil))
		if ok != want.Valid() {
			t.Fatalf("Valid is %t, read is %t: %+v", want.Valid(), ok, want)
		}
		if ok && !reflect.DeepEqual(&got, want) {
			t.Fatalf("got %+v; want %+v", got, want)
		}
	})
}

func TestLimits(t *testing.T) {
	value := func(n int) []byte { return []byte("{" + strings.Repeat(" ", n-2) + "}") }
	answer := func(a Answer) *Token { return &Token{Transcript: []Answer{a}} }
	input := func(q Question) *Token { return &Token{Inputs: []Question{q}} }
	position := func(p Position) *Token { return &Token{Position: p} }
	answers := func(n int) *Token {
		return &Token{Transcript: slices.Repeat([]Answer{{Value: value(2)}}, n)}
	}
	for name, c := range map[string]struct {
		token *Token
		want  bool
	}{
		"all inputs":              {&Token{Inputs: make([]Question, MaxInputs)}, true},
		"an input too many":       {&Token{Inputs: make([]Question, MaxInputs+1)}, false},
		"all answers":             {answers(MaxTranscript), true},
		"an answer too many":      {answers(MaxTranscript + 1), false},
		"longest session":         {position(Position{Session: strings.Repeat("s", MaxSession)}), true},
		"session too long":        {position(Position{Session: strings.Repeat("s", MaxSession+1)}), false},
		"session ends its line":   {position(Position{Session: "a\r\nb: c"}), false},
		"session with a NUL":      {position(Position{Session: "a\x00"}), false},
		"longest event":           {position(Position{Event: strings.Repeat("e", MaxEvent)}), true},
		"event too long":          {position(Position{Event: strings.Repeat("e", MaxEvent+1)}), false},
		"event ends its line":     {position(Position{Event: "a\nb"}), false},
		"event beyond ASCII":      {position(Position{Event: "é 1"}), true},
		"longest request":         {position(Position{Request: strings.Repeat("r", MaxRequest)}), true},
		"request too long":        {position(Position{Request: strings.Repeat("r", MaxRequest+1)}), false},
		"request ends its string": {position(Position{Request: `a","b":"`}), false},
		"request with an escape":  {position(Position{Request: `a\`}), false},
		"request with a line end": {position(Position{Request: "a\n"}), false},
		"request beyond ASCII":    {position(Position{Request: "\xff"}), false},
		"modern revision":         {position(Position{Version: mcp.Modern}), false},
		"oldest revision":         {position(Position{Version: mcp.Version20241105}), true},
		"longest key and id":      {input(Question{Key: strings.Repeat("k", MaxKey), ID: strings.Repeat("1", MaxID)}), true},
		"input's key too long":    {input(Question{Key: strings.Repeat("k", MaxKey+1)}), false},
		"id too long":             {input(Question{ID: strings.Repeat("1", MaxID+1)}), false},
		"input of no kind":        {input(Question{Method: kinds}), false},
		"input of a far kind":     {input(Question{Method: 128}), false}, // its bits would shift out
		"longest params":          {input(Question{Params: value(MaxObject)}), true},
		"params too long":         {input(Question{Params: value(MaxObject + 1)}), false},
		"params are a list":       {input(Question{Params: []byte("[]")}), false},
		"longest value":           {answer(Answer{Value: value(MaxObject)}), true},
		"value too long":          {answer(Answer{Value: value(MaxObject + 1)}), false},
		"no value":                {answer(Answer{}), false},
		"value is a list":         {answer(Answer{Value: []byte("[]")}), false},
		"value is cut":            {answer(Answer{Value: []byte(`{"a":`)}), false},
		"answer's key too long":   {answer(Answer{Key: strings.Repeat("k", MaxKey+1), Value: value(2)}), false},
		"answer of no kind":       {answer(Answer{Method: kinds, Value: value(2)}), false},
	} {
		if got := c.token.Valid(); got != c.want {
			t.Errorf("%s: Valid is %t, want %t", name, got, c.want)
		}
		var got Token
		if ok := got.readPlain(c.token.appendPlain(nil)); ok != c.want {
			t.Errorf("%s: read is %t, want %t", name, ok, c.want)
		} else if ok && !reflect.DeepEqual(&got, c.token) {
			t.Errorf("%s: another token came back", name)
		}
	}
}

// What a token without the newer fields costs more than the older form did.
func TestAbsentFieldsAreShort(t *testing.T) {
	const older = 48 + 1 + 5 + 1 + 1 // digests, Round, Expires, two lengths
	tok := sample()
	if n := len(tok.appendPlain(nil)) - older - len(tok.Owner) - len(tok.Upstream); n != 11 {
		t.Errorf("%d bytes for fields that are absent, want 11", n)
	}
}

// A key holder that writes another plain form is refused too.
func TestPlainForm(t *testing.T) {
	for _, tok := range []*Token{sample(), parked()} {
		whole := tok.appendPlain(nil)
		for i := range whole {
			if new(Token).readPlain(whole[:i]) {
				t.Errorf("cut to %d of %d bytes: read", i, len(whole))
			}
		}
		if new(Token).readPlain(append(whole, 0)) {
			t.Error("with a byte behind it: read")
		}
	}

	entry := func(head byte, rest ...byte) []byte {
		return append(append([]byte{head}, make([]byte, 16)...), rest...)
	}
	join := func(flags byte, parts ...any) []byte {
		b := append(make([]byte, 48), flags)
		for _, p := range parts {
			switch p := p.(type) {
			case int:
				b = binary.AppendUvarint(b, uint64(p))
			case uint64:
				b = binary.AppendUvarint(b, p)
			case []byte:
				b = append(b, p...)
			case string:
				b = append(b, p...)
			default:
				t.Fatalf("%T in a plain form", p)
			}
		}
		return b
	}
	const huge, tooGreat = uint64(math.MaxUint64), uint64(math.MaxUint32) + 1
	// Round, Expires, Ran | Asked | Owner, Upstream, Session, Event, Request | inputs, answers, values
	for name, b := range map[string][]byte{
		"small":  join(4, 1, 2, 3, 1, 1, 1, 1, 2, 1, 1, 1, 0, 0, 0, "oupser"),
		"full":   join(4|flagCut, 1, 2, 3, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 4, "oupser", entry(3, 1, 'k', 1, '7', 2), entry(4, 0, 2), "{}{}"),
		"zeroes": join(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	} {
		if !new(Token).readPlain(b) {
			t.Fatalf("%s: the right form is refused", name)
		}
	}
	for name, b := range map[string][]byte{
		"trailing byte":        join(0, 1, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, "oupx"),
		"missing byte":         join(0, 1, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, "ou"),
		"owner too long":       join(0, 1, 2, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, "oup"),
		"lengths wrap around":  join(0, 1, 2, 0, 0, 0, 0, 4, huge, 0, 0, 0, 0, 0, 0, "oup"),
		"huge owner":           join(0, 1, 2, 0, 0, 0, 0, huge, 4, 0, 0, 0, 0, 0, 0, "oup"),
		"round too great":      join(0, tooGreat, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, "oup"),
		"ran too great":        join(0, 1, 2, tooGreat, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, "oup"),
		"asked too great":      join(0, 1, 2, 0, 0, 0, tooGreat, 1, 2, 0, 0, 0, 0, 0, 0, "oup"),
		"long varint":          join(0, []byte{0x81, 0}, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, "oup"),
		"long zero":            join(0, []byte{0x80, 0}, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, "oup"),
		"endless varint":       join(0, 1, bytes.Repeat([]byte{0xff}, 11), 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, "oup"),
		"unknown revision":     join(5, 1, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, "oup"),
		"unknown flag":         join(0x20, 1, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, "oup"),
		"inputs that are not":  join(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0),
		"huge inputs":          join(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, huge, 0, 0, entry(0, 0, 0, 0)),
		"answers that are not": join(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, "{}"),
		"huge answers":         join(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, huge, 2, entry(0, 0, 2), "{}"),
		"counts wrap around":   join(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, huge, 1, 2, entry(0, 0, 2), "{}"),
		"texts into an entry":  join(0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, entry(0, 0, 0, 0)),
		"params too long":      join(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, entry(0, 0, 0, 3), "{}"),
		"params left out":      join(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, entry(0, 0, 0)),
		"unknown kind":         join(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, entry(byte(kinds)<<1, 0, 0, 0)),
		"kind with a high bit": join(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, entry(0x80, 0, 0, 0)),
		"long length of a key": join(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, entry(0, 0x80, 0, 0, 0)),
		"values left over":     join(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 3, entry(0, 0, 2), "{}x"),
		"values of nobody":     join(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, "{}"),
		"value too long":       join(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, entry(0, 0, 3), "{}"),
		"huge values":          join(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, huge, entry(0, 0, 2), "{}"),
		"empty value":          join(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, entry(0, 0, 0)),
	} {
		if new(Token).readPlain(b) {
			t.Errorf("%s: read", name)
		}
	}
}

// Counts that promise more than there is cost nothing.
func TestEmptyPromises(t *testing.T) {
	b := append(make([]byte, 48), 0)
	for _, n := range []uint64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, MaxInputs, MaxTranscript, 0} {
		b = binary.AppendUvarint(b, n)
	}
	b = append(b, make([]byte, 1000)...)
	var tok Token
	if n := testing.AllocsPerRun(20, func() {
		if tok.readPlain(b) {
			t.Error("read")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// A token shares no memory with what it was read from, nor its objects with
// each other.
func TestTokenIsACopy(t *testing.T) {
	b := parked().appendPlain(nil)
	var tok Token
	if !tok.readPlain(b) {
		t.Fatal("refused")
	}
	clear(b)
	if want := parked(); !reflect.DeepEqual(&tok, want) {
		t.Errorf("got %+v, want %+v", tok, want)
	}
	_ = append(tok.Inputs[0].Params, "overrun"...)
	if got, want := tok.Transcript[0].Value, parked().Transcript[0].Value; !bytes.Equal(got, want) {
		t.Errorf("appending to params changed a value to %q", got)
	}
	_ = append(tok.Transcript[0].Value, "overrun"...)
	if got, want := tok.Transcript[1].Value, parked().Transcript[1].Value; !bytes.Equal(got, want) {
		t.Errorf("appending to a value changed the next to %q", got)
	}
}

func TestKinds(t *testing.T) {
	for _, method := range []string{mcp.MethodElicit, mcp.MethodCreateMessage, mcp.MethodRootsList} {
		if k, ok := KindOf(method); !ok || k.Method() != method {
			t.Errorf("%s: kind %d, %t, of method %q", method, k, ok, k.Method())
		}
	}
	if k, ok := KindOf(mcp.MethodToolsCall); ok {
		t.Errorf("%s has kind %d", mcp.MethodToolsCall, k)
	}
	if m := kinds.Method(); m != "" {
		t.Errorf("a kind that is none has the method %q", m)
	}
}
