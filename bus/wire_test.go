package bus

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// fake is a replica by hand: what it sends is up to the test.
type fake struct {
	t   *testing.T
	nc  *nats.Conn
	sub *nats.Subscription
	to  string
}

// withFake opens a bus with id "real" beside a replica "fake" that the test
// plays.
func withFake(t *testing.T, change func(s *Settings)) (*Bus, *fake) {
	t.Helper()
	_, url := natsServer(t, "")
	s := Settings{Replica: "real", URL: url}
	if change != nil {
		change(&s)
	}
	b := open(t, s)
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	sub, err := nc.SubscribeSync("holdfast.v1.r.fake.>")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t, nc, sub, b.inbox + ".s"}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := b.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return b, f
}

// send sends a frame, with what every frame needs filled in.
func (p *fake) send(f frame) {
	p.t.Helper()
	f.from = []byte("fake")
	if f.window == 0 {
		f.window = 1 << 20
	}
	p.raw(f.encode())
}

func (p *fake) raw(b []byte) {
	p.t.Helper()
	if err := p.nc.Publish(p.to, b); err != nil {
		p.t.Fatal(err)
	}
}

// next is the next frame of a type; others are skipped.
func (p *fake) next(typ frameType) frame {
	p.t.Helper()
	late := time.Now().Add(patience)
	for {
		m, err := p.sub.NextMsg(time.Until(late))
		if err != nil {
			p.t.Fatalf("no frame of type %d: %v", typ, err)
		}
		f, err := parseFrame(m.Data)
		if err != nil {
			p.t.Fatal(err)
		}
		if f.typ == typ {
			return f
		}
	}
}

func (p *fake) reset(want code) frame {
	p.t.Helper()
	f := p.next(typeReset)
	if code(f.kind) != want {
		p.t.Errorf("reset with code %d (%s), want %d", f.kind, f.payload, want)
	}
	return f
}

var someToken = token{7, 7, 7}

// The same open again, while the stream is open and afterwards, does not run
// the handler again.
func TestOpenRepeated(t *testing.T) {
	b, p := withFake(t, nil)
	streams, release := hold(t, b, countKind)
	again := frame{typ: typeOpen, flags: flagOpener, token: someToken, seq: 1, kind: countKind, payload: []byte("once")}
	p.send(again)
	within(t, streams, "stream")
	p.send(again)
	if f := p.next(typeAlive); f.acked == 0 {
		t.Error("the first message is not acknowledged")
	}
	release()
	p.reset(codeClosed)
	p.send(again)
	p.reset(codeClosed)
	if len(streams) != 0 {
		t.Error("the handler ran again")
	}
}

// An open that is answered late is asked again under the same token.
func TestAskRepeatsItself(t *testing.T) {
	b, p := withFake(t, nil)
	s, err := b.Ask(t.Context(), "fake", 'x', []byte("anyone?"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first, second := p.next(typeOpen), p.next(typeOpen)
	if first.token != second.token || string(second.payload) != "anyone?" || second.kind != 'x' {
		t.Errorf("asked %+v, then %+v", first, second)
	}
	p.send(frame{typ: typeData, flags: flagEnd, token: first.token, seq: 1, payload: []byte("here")})
	if m, err := recv(t, s); string(m) != "here" {
		t.Errorf("%q, %v; want here", m, err)
	}
}

// A handler that takes its time is announced before the opener gives up, and
// keeps being so.
func TestSilentHandlerIsAlive(t *testing.T) {
	b, p := withFake(t, nil)
	hold(t, b, countKind)
	p.send(frame{typ: typeOpen, flags: flagOpener, token: someToken, seq: 1, kind: countKind})
	start := time.Now()
	p.next(typeAlive)
	if took := time.Since(start); took > brisk/2 {
		t.Errorf("first sign of life after %s", took)
	}
	p.send(frame{typ: typeAlive, flags: flagOpener, token: someToken, seq: 1})
	p.next(typeAlive)
}

func TestSilentOpenerIsLost(t *testing.T) {
	b, p := withFake(t, nil)
	streams, _ := hold(t, b, countKind)
	p.send(frame{typ: typeOpen, flags: flagOpener, token: someToken, seq: 1, kind: countKind})
	h := within(t, streams, "stream")
	within(t, h.ctx.Done(), "end of the handler's context")
	if err := causeOf(h); !errors.Is(err, ErrLost) {
		t.Errorf("cause %v, want ErrLost", err)
	}
	p.reset(codeLost)
}

func TestSilentHandlerIsLost(t *testing.T) {
	b, p := withFake(t, nil)
	s, err := b.Ask(t.Context(), "fake", 'x', nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p.send(frame{typ: typeAlive, token: p.next(typeOpen).token})
	if _, err := recv(t, s); !errors.Is(err, ErrLost) {
		t.Errorf("%v, want ErrLost", err)
	}
	p.reset(codeLost)
}

// Whatever is missing or too much in the answers ends the stream at both ends.
func TestBrokenAnswers(t *testing.T) {
	large := make([]byte, 20<<10)
	for name, frames := range map[string][]frame{
		"gap":                  {{typ: typeData, seq: 1}, {typ: typeData, seq: 3}},
		"first one missing":    {{typ: typeData, seq: 2}},
		"last one missing":     {{typ: typeData, seq: 1}, {typ: typeAlive, seq: 2}},
		"more than the window": {{typ: typeData, seq: 1, payload: large}},
		"after the end mark":   {{typ: typeData, seq: 1, flags: flagEnd}, {typ: typeData, seq: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			b, p := withFake(t, func(s *Settings) { s.Window = 16 << 10; s.Chunk = 4 << 10 })
			s, err := b.Ask(t.Context(), "fake", 'x', nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			opened := p.next(typeOpen)
			for _, f := range frames {
				f.token = opened.token
				p.send(f)
			}
			p.reset(codeLost)
			for {
				if _, err = recv(t, s); err != nil {
					break
				}
			}
			if want := name == "after the end mark"; want != (err == io.EOF) || !want && !errors.Is(err, ErrLost) {
				t.Errorf("receives %v", err)
			}
		})
	}
}

// A reset that got lost is said again when the peer shows that it missed it.
func TestResetIsSaidAgain(t *testing.T) {
	b, p := withFake(t, nil)
	s, err := b.Ask(t.Context(), "fake", 'x', nil)
	if err != nil {
		t.Fatal(err)
	}
	opened := p.next(typeOpen)
	s.Close()
	p.reset(codeClosed)
	p.send(frame{typ: typeAlive, token: opened.token})
	p.reset(codeClosed)
	p.send(frame{typ: typeAlive, token: token{1}})
	p.reset(codeUnknown)
}

// For a handler only Close at the opener means that the client has gone.
func TestResetCausesAtTheHandler(t *testing.T) {
	b, p := withFake(t, nil)
	for i, want := range map[code]error{
		codeClosed: ErrReset, codeLost: ErrLost, codeUnknown: ErrLost, codeLeft: ErrLost, 200: ErrLost,
	} {
		streams, release := hold(t, b, countKind)
		k := token{byte(i)}
		p.send(frame{typ: typeOpen, flags: flagOpener, token: k, seq: 1, kind: countKind})
		h := within(t, streams, "stream")
		p.send(frame{typ: typeReset, flags: flagOpener, token: k, kind: byte(i)})
		within(t, h.ctx.Done(), "end of the handler's context")
		if err := causeOf(h); !errors.Is(err, want) {
			t.Errorf("code %d: cause %v, want %v", i, err, want)
		}
		release()
	}
}

func TestVersionMismatch(t *testing.T) {
	b, p := withFake(t, nil)
	hold(t, b, countKind)
	f := frame{typ: typeOpen, flags: flagOpener, token: someToken, seq: 1, window: 1 << 20, kind: countKind, from: []byte("fake")}
	raw := f.encode()
	raw[0] = 2
	p.raw(raw)
	if f := p.reset(codeRefused); f.token != someToken || !strings.Contains(string(f.payload), "version 2") {
		t.Errorf("refused with %+v %q", f, f.payload)
	}
	// The other way round: the refusal of a newer replica is understood.
	s, err := b.Ask(t.Context(), "fake", 'x', nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	no := frame{typ: typeReset, token: p.next(typeOpen).token, kind: byte(codeRefused), from: []byte("fake"), payload: []byte("version 1 is too old")}
	raw = no.encode()
	raw[0] = 2
	p.raw(raw)
	if _, err := recv(t, s); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "too old") {
		t.Errorf("%v, want ErrRefused with the peer's text", err)
	}
}

func TestUnknownFrameType(t *testing.T) {
	_, p := withFake(t, nil)
	p.send(frame{typ: 99, flags: flagOpener, token: someToken})
	if f := p.reset(codeRefused); !strings.Contains(string(f.payload), "type 99") {
		t.Errorf("refused with %q", f.payload)
	}
}

// A heartbeat that reports more than is known here, or nonsense, does no harm.
func TestStrangeHeartbeats(t *testing.T) {
	b, p := withFake(t, nil)
	p.to = b.alive
	p.raw([]byte("nonsense"))
	p.send(frame{typ: typeBeat, payload: []byte("short")})
	p.send(frame{typ: typeOpen, token: someToken})
	real := beat{number: 1, version: "9", heard: []hearing{{"real", false, 1 << 60, 0}, {"third", false, 1, 0}}}
	p.send(frame{typ: typeBeat, payload: append(real.append(nil), "later"...)})
	awaitPeers(t, b, 1)
	if got := b.Peers()[0]; got.ID != "fake" || got.Version != "9" {
		t.Errorf("peer %+v", got)
	}
	if ago, left := b.HeardAgo("third"); left || ago > brisk {
		t.Errorf("heard of the third %s ago, left %v", ago, left)
	}
}

// What a peer said before its goodbye is not lost to the goodbye.
func TestAnswerBeforeGoodbye(t *testing.T) {
	b, p := withFake(t, func(s *Settings) { s.OwnerTimeout = 30 * time.Second }) // the fake sends no heartbeats
	for i := range 50 {
		id := "fake"
		s, err := b.Ask(t.Context(), id, 'x', nil)
		if err != nil {
			t.Fatal(err)
		}
		p.send(frame{typ: typeData, flags: flagEnd, token: p.next(typeOpen).token, seq: 1, payload: []byte("bye")})
		if i == 49 {
			leaving := beat{number: 1}
			f := frame{typ: typeBeat, flags: flagBye, from: []byte(id), payload: leaving.append(nil)}
			if err := p.nc.Publish(b.alive, f.encode()); err != nil {
				t.Fatal(err)
			}
		}
		if m, err := recv(t, s); string(m) != "bye" {
			t.Fatalf("%q, %v; want bye", m, err)
		}
		s.Close()
	}
}
