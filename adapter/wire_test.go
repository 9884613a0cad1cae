package adapter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

func checkerOf(fields []Field) ParamChecker { return paramFields(fields) }

func fullRequest() *Request {
	return &Request{
		Upstream: "up", Method: mcp.MethodToolsCall, ID: []byte(`"1"`), Name: []byte("n"), Params: []byte(`{"name":"n","arguments":{"a":1}}`),
		Args: []byte(`{"a":1}`), NullArgs: true, Meta: []byte(`{"m":1}`), ClientInfo: []byte(`{"name":"c"}`), Capabilities: []byte(`{"roots":{}}`),
		LogLevel: mcp.LevelWarning, ProgressToken: []byte("7"), InputResponses: []byte(`{"k":{}}`), RequestState: []byte("state"),
		Wrapped: true, Carried: true, Hold: 20 * time.Second, Lasting: time.Hour, LastingAfter: time.Second, Stays: true, Away: time.Minute, Original: []byte("5"),
		Credentials:     Credentials{Authorization: "Bearer x", Forward: []Field{{"X-A", "1"}, {"X-B", ""}}},
		PrincipalHeader: "me", Headers: paramFields{{"Mcp-Param-A", "1"}, {"Mcp-Param-B", "ü"}},
	}
}

// events are one of each kind of what a round tells its client.
func events() []Event {
	return []Event{
		{Notification: []byte(`{"jsonrpc":"2.0","method":"x"}`)},
		{Outcome: &Outcome{Method: "m", Result: []byte(`{"r":1}`), ServerInfo: []byte(`{}`), Cache: Cache{TTLMillis: 1 << 40, Scope: "private"}, Subscription: []byte("1")}},
		{Outcome: &Outcome{Method: "m", Error: []byte(`{"code":-7}`)}},
		{Outcome: &Outcome{Method: "m", State: []byte("s")}},
		{Outcome: &Outcome{Method: "m", State: []byte("h"), Standing: &Standing{
			Handle: []byte("h"), Status: mcp.TaskWorking, Message: "w", Born: time.UnixMilli(1), Changed: time.UnixMilli(2), TTL: time.Hour, Away: time.Minute, Waiting: 3,
		}}},
		{Standing: &Outcome{Inputs: []Input{{"a", "m1", []byte(`{}`)}}, Standing: &Standing{
			Handle: []byte("h"), Status: mcp.TaskFailed, Born: time.UnixMilli(1), Changed: time.UnixMilli(2), TTL: 1, Failure: &Refusal{Reason: ReasonCallLost, Detail: "d"},
		}}},
		{Outcome: &Outcome{Method: "m", State: []byte("s"), Inputs: []Input{{"a", "m1", []byte(`{}`)}, {"b", "m2", []byte(`{"x":1}`)}}}},
	}
}

func ends() []error {
	all := []error{
		&Unauthorized{Status: 401, Authenticate: []string{"Bearer", ""}[:1], Body: []byte("no"), ContentType: "text/plain"},
		&Unauthorized{Status: 403},
		&jsonrpc.Error{Code: -32602, Message: "m", Data: []byte(`{"a":1}`)},
		&jsonrpc.Error{Code: -1},
		&jsonrpc.Error{Code: 7},
		&jsonrpc.Error{},
	}
	for _, reason := range []Reason{
		ReasonInvalidParams, ReasonMethodNotFound, ReasonHeaderMismatch, ReasonMissingCapability, ReasonStateInvalid, ReasonStateUnknown, ReasonStateForeign,
		ReasonStateStale, ReasonStateExpired, ReasonCallLost, ReasonCallTimeout, ReasonCallDuration, ReasonTooManyRounds, ReasonSlowClient, ReasonOverload,
		ReasonQuota, ReasonBusDown, ReasonShutdown, ReasonUpstreamDown, ReasonUpstreamLost, ReasonUpstreamStatus, ReasonUpstreamReply, ReasonInternal,
	} {
		all = append(all, &Refusal{Reason: reason, Detail: "d", MayHaveRun: true, RetryAfter: 1500 * time.Millisecond, Required: []byte(`{"roots":{}}`)}, &Refusal{Reason: reason})
	}
	return all
}

func TestWireRoundTrip(t *testing.T) {
	for _, takeOver := range []bool{false, true} {
		want := fullRequest()
		form, rest, err := readForm(appendRound(want, takeOver))
		if err != nil || form != formRound2 {
			t.Fatal(form, err)
		}
		got, gotTakeOver, err := readRound(rest, false, checkerOf)
		if err != nil || gotTakeOver != takeOver || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, %v, want %+v", got, gotTakeOver, err, want)
		}
		if _, _, err := readRound(rest, true, checkerOf); !errors.Is(err, errWire) {
			t.Errorf("a first round with a request state is read: %v", err)
		}
	}
	want := fullRequest()
	want.RequestState = nil
	want.ticket, want.endpoint = ticket{1, 2, 3}, "e2"
	form, rest, err := readForm(appendFirst(want))
	if err != nil || form != formFirst2 {
		t.Fatal(form, err)
	}
	if got, _, err := readRound(rest, true, checkerOf); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, want := range events() {
		got, err := readEvent(appendEvent(&want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got.Outcome, err, want.Outcome)
		}
	}
	for _, want := range ends() {
		if _, got := readEvent(appendEnd(want)); !reflect.DeepEqual(got, want) {
			t.Errorf("got %#v, want %#v", got, want)
		}
	}
	if _, err := readEvent(newFields(formEnded, 0)); !errors.Is(err, ErrEnded) {
		t.Errorf("got %v", err)
	}
	// What is no answer of ours is not told; its detail is for the log.
	var refusal *Refusal
	if _, err := readEvent(appendEnd(errors.New("secret"))); !errors.As(err, &refusal) || refusal.Reason != ReasonInternal || refusal.Detail != "" {
		t.Errorf("got %+v", err)
	}
	if _, err := readEvent(append(newFields(formAway, 0), 'h', 2, 'r', '2')); !reflect.DeepEqual(err, away{"r2"}) || !errors.Is(err, errAway) {
		t.Errorf("got %#v", err)
	}
}

// A newer replica may say more: what is not known is passed over.
func TestUnknownTagsAreIgnored(t *testing.T) {
	more := func(f fields) fields {
		f.bytes('~', []byte("new"))
		f.bytes(0, []byte{})
		return f
	}
	want := fullRequest()
	got, _, err := readRound(more(appendRound(want, false))[2:], false, checkerOf)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, ev := range events() {
		if got, err := readEvent(more(appendEvent(&ev))); err != nil || !reflect.DeepEqual(got, ev) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	for _, want := range ends() {
		if _, got := readEvent(more(appendEnd(want))); !reflect.DeepEqual(got, want) {
			t.Errorf("got %#v, want %#v", got, want)
		}
	}
}

// What is cut, of another version or of an unknown form is refused.
func TestWireRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, whole := range [][]byte{appendRound(fullRequest(), true), appendEvent(&events()[4]), appendEnd(ends()[0])} {
		other := bytes.Clone(whole)
		other[0] = wireVersion + 1
		if _, _, err := readForm(other); !errors.Is(err, errWire) {
			t.Errorf("another version: %v", err)
		}
	}
	if _, err := readEvent([]byte{wireVersion, '?'}); !errors.Is(err, errWire) {
		t.Errorf("an unknown form: %v", err)
	}
	for _, b := range [][]byte{nil, {wireVersion}} {
		if _, _, err := readForm(b); !errors.Is(err, errWire) {
			t.Errorf("%v: %v", b, err)
		}
	}
	for _, b := range [][]byte{{'a'}, {'a', 1}, {'a', 2, 0}, {'a', 0xff}, {'a', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}} {
		if readFields(b, func(item) {}) {
			t.Errorf("%v is taken for fields", b)
		}
	}
	if _, err := readEvent(newFields(formNote, 0)); !errors.Is(err, errWire) {
		t.Error("a notification without one is taken")
	}
	for name, change := range map[string]func(*Request){
		"no request state":       func(r *Request) { r.RequestState = nil },
		"params that are none":   func(r *Request) { r.Params = []byte("[]") },
		"no params":              func(r *Request) { r.Params = nil },
		"no capabilities":        func(r *Request) { r.Capabilities = nil },
		"capabilities of a sort": func(r *Request) { r.Capabilities = []byte(`"x"`) },
	} {
		req := fullRequest()
		change(req)
		if _, _, err := readRound(appendRound(req, false)[2:], false, checkerOf); !errors.Is(err, errWire) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// script is a Stream whose other side is a list of messages.
type script struct {
	in   [][]byte
	end  error
	sent [][]byte
	over bool
}

func (s *script) Send(_ context.Context, m []byte) error {
	s.sent = append(s.sent, bytes.Clone(m))
	return nil
}

func (s *script) End(ctx context.Context, m []byte) error {
	s.over = true
	return s.Send(ctx, m)
}

func (s *script) Recv(time.Time) ([]byte, error) {
	if len(s.in) == 0 {
		return nil, s.end
	}
	m := s.in[0]
	s.in = s.in[1:]
	return m, nil
}

func (s *script) Abandon()    {}
func (s *script) Taken() bool { return true }
func (s *script) Close()      {}

// Rounds that mean something else where a field is skipped have a form that the first
// readers of rounds refuse; all others have theirs.
func TestRoundsThatOldReplicasRefuse(t *testing.T) {
	for name, tt := range map[string]struct {
		req     Request
		refused bool
	}{
		"plain":             {Request{Method: mcp.MethodToolsCall}, false},
		"may be held":       {Request{Method: mcp.MethodToolsCall, Hold: time.Second}, false},
		"may last":          {Request{Method: mcp.MethodToolsCall, Lasting: time.Hour, LastingAfter: time.Second}, false},
		"wrapped responses": {Request{Method: mcp.MethodToolsCall, Wrapped: true}, true},
		"carried":           {Request{Method: mcp.MethodToolsCall, Carried: true}, true},
		"stays":             {Request{Method: mcp.MethodToolsCall, Stays: true}, true},
		"followed":          {Request{Method: mcp.MethodToolsCall, Lasting: time.Hour, Away: time.Minute}, true},
		"of another":        {Request{Method: mcp.MethodResume, Original: []byte("1")}, true},
		"about a task":      {Request{Method: mcp.MethodTaskGet}, true},
		"watched":           {Request{Method: methodWatch}, true},
	} {
		for _, m := range []struct {
			text      []byte
			old, late byte
		}{{appendRound(&tt.req, false), formRound, formRound2}, {appendFirst(&tt.req), formFirst, formFirst2}} {
			want := m.old
			if tt.refused {
				want = m.late
			}
			if form, _, err := readForm(m.text); err != nil || form != want {
				t.Errorf("%s: form %q, %v, want %q", name, form, err, want)
			}
		}
	}
}

// A first round that waits for a word is not for readers that would not wait.
func TestFirstRoundThatWaitsIsOfItsOwnForm(t *testing.T) {
	if form, _, err := readForm(appendFirst(&Request{Method: mcp.MethodToolsCall, once: true})); err != nil || form != formOnce {
		t.Errorf("form %q, %v", form, err)
	}
}

// A message that is not understood is answered with nothing, and says so in the
// log; nothing of it is acted on.
func TestForeignMessagesAreRefused(t *testing.T) {
	f := newReplicas(t, 1)
	e := f.rigs[0].Engine
	sealed := func(b []byte) []byte { return e.ring.SealMessage(nil, b, contextRound) }
	round := appendRound(fullRequest(), true)
	newer := bytes.Clone(round)
	newer[0]++
	for name, tt := range map[string]struct {
		kind Kind
		body []byte
		log  string
	}{
		"no seal":              {KindRound, round, "cannot be opened"},
		"an event's seal":      {KindRound, e.ring.SealMessage(nil, round, contextEvent), "cannot be opened"},
		"nothing":              {KindRound, nil, "cannot be opened"},
		"a newer version":      {KindRound, sealed(newer), "another version"},
		"an unknown form":      {KindRound, sealed([]byte{wireVersion, '?'}), "another version"},
		"a form of another":    {KindSeek, sealed(round), "another version"},
		"an unknown kind":      {'?', sealed(round), "another version"},
		"a round that is cut":  {KindRound, sealed(round[:len(round)-3]), "round of another replica refused"},
		"another's upstream":   {KindSession, sealed(append(newFields(formSession, 0), 'u', 1, 'x', 'b', 1, 'y')), "refused"},
		"a session's question": {KindSession, sealed(newFields(formSession, 0)), "refused"},
		"a note of nothing":    {KindNote, sealed(newFields(formSession, 0)), "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(f.logs.String())
			e.noisy = e.log // every line counts here
			s := &script{end: io.EOF}
			e.ServeStream(t.Context(), "r9", tt.kind, s, tt.body)
			if !s.over || len(s.sent) != 1 || len(s.sent[0]) != 0 {
				t.Errorf("answered with %q", s.sent)
			}
			if got := f.logs.String()[before:]; !strings.Contains(got, tt.log) || !strings.Contains(got, "r9") {
				t.Errorf("the log says %q, want %q and who it was", got, tt.log)
			}
		})
	}
	if n := len(f.raw.Records()); n != 0 {
		t.Errorf("the server got %d requests", n)
	}
}

func FuzzWire(f *testing.F) {
	f.Add([]byte(appendRound(fullRequest(), true)))
	f.Add([]byte(appendRound(&Request{RequestState: []byte{}, Params: []byte("{}"), Capabilities: []byte("{}")}, false)))
	for _, ev := range events() {
		f.Add(appendEvent(&ev))
	}
	for _, end := range ends() {
		f.Add(appendEnd(end))
	}
	f.Add([]byte(append(newFields(formAway, 0), 'h', 2, 'r', '2')))
	f.Add([]byte(append(newFields(formReady, 0), 's', 1, 1)))
	f.Add([]byte(newFields(formEnded, 0)))
	f.Add([]byte(append(newFields(formOutcome, 0), 'k', 0)))
	f.Fuzz(func(t *testing.T, b []byte) {
		form, rest, err := readForm(b)
		if err != nil {
			return
		}
		if req, takeOver, err := readRound(rest, false, checkerOf); err == nil {
			again, takeOverAgain, err := readRound(appendRound(req, takeOver)[2:], false, checkerOf)
			if err != nil || takeOver != takeOverAgain || !reflect.DeepEqual(normal(req), normal(again)) {
				t.Errorf("%+v became %+v, %v", req, again, err)
			}
		}
		ev, err := readEvent(b)
		var to away
		switch {
		case errors.Is(err, errWire), errors.As(err, &to), errors.As(err, new(ready)), errors.Is(err, ErrEnded):
			return
		case err != nil:
			if _, again := readEvent(appendEnd(err)); !reflect.DeepEqual(again, err) {
				t.Errorf("%#v became %#v", err, again)
			}
		case form == formNote || form == formOutcome || form == formStanding:
			again, err := readEvent(appendEvent(&ev))
			if err != nil || !reflect.DeepEqual(again, ev) {
				t.Errorf("%+v became %+v, %v", ev.Outcome, again.Outcome, err)
			}
		default:
			t.Errorf("form %q has an event", form)
		}
		_, _ = sessionBody(b, new(string))
	})
}

// normal leaves out what does not make a difference.
func normal(req *Request) Request {
	n := *req
	if n.Headers != nil && len(n.Headers.Fields()) == 0 {
		n.Headers = nil
	}
	return n
}
