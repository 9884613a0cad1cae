package mock_test

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/bench/mock"
)

// keeper starts a server that keeps calls, and a peer with a session.
func keeper(t *testing.T, calls int) (*peer, *watched) {
	t.Helper()
	w := &watched{listen(t), make(chan struct{}, 16)} // room for what Close closes
	p := startOn(t, &mock.Server{Keep: calls}, w)
	p.initialize()
	return p, w
}

// leave closes a call's stream and waits until the server knows.
func (a *asked) leave(w *watched) {
	a.resp.Body.Close()
	<-w.closed
}

// resume asks for the rest of a stream behind an event.
func (p *peer) resume(event string) *http.Response {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), "GET", p.url+"/mcp", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Mcp-Session-Id", p.session)
	req.Header.Set("Last-Event-ID", event)
	resp, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// goOn goes on with a call's stream.
func (a *asked) goOn(p *peer, event int) *asked {
	p.t.Helper()
	resp := p.resume(strconv.Itoa(a.question.ID) + "-" + strconv.Itoa(event))
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		p.t.Fatalf("resume: got %s, %v", resp.Status, resp.Header)
	}
	return &asked{resp: resp, events: bufio.NewScanner(resp.Body)}
}

// sees compares some of the counters.
func (p *peer) sees(when string, want map[string]int) {
	p.t.Helper()
	got := p.stats()
	for name, n := range want {
		if got[name] != n {
			p.t.Errorf("%s: %s is %d, want %d", when, name, got[name], n)
		}
	}
}

func TestKeptCallGoesOnWithoutItsStream(t *testing.T) {
	p, w := keeper(t, 10)
	for i, event := range []int{0, 1} {
		a := p.ask("one")
		p.sees("asked", map[string]int{"waiting": 1, "streams": 1})
		a.leave(w)
		p.sees("left", map[string]int{"waiting": 1, "streams": 0, "left": 0})
		b := a.goOn(p, event)
		if event == 0 {
			b.read(t)
			if b.question.ID != a.question.ID {
				t.Errorf("question %d came again as %d", a.question.ID, b.question.ID)
			}
		}
		p.answer(a.question.ID, yes)
		if got := string(b.next(t)); !strings.Contains(got, "one=yes") {
			t.Errorf("behind event %d: got %s", event, got)
		}
		if rest, err := io.ReadAll(b.resp.Body); err != nil || len(rest) != 0 {
			t.Errorf("after the result: %q, %v", rest, err)
		}
		p.sees("answered", map[string]int{"waiting": 0, "streams": 0, "left": 0, "stray": 0, "resumed": i + 1, "answered": i + 1})
	}
}

func TestResultWaitsForAStream(t *testing.T) {
	p, w := keeper(t, 10)
	a := p.ask("one")
	a.leave(w)
	for range 2 { // the second is one too many
		if status := p.answer(a.question.ID, yes); status != 202 {
			t.Errorf("answer: got %d", status)
		}
	}
	p.sees("answered", map[string]int{"waiting": 0, "answered": 1, "stray": 1, "streams": 0})
	if got := string(a.goOn(p, 1).next(t)); !strings.Contains(got, "one=yes") {
		t.Errorf("result: got %s", got)
	}
	if resp := p.resume(strconv.Itoa(a.question.ID) + "-1"); resp.StatusCode != 400 {
		t.Errorf("a stream that is over: got %s", resp.Status)
	}
}

func TestNewestStreamHasTheCall(t *testing.T) {
	p, w := keeper(t, 10)
	a := p.ask("one")
	b := a.goOn(p, 1) // before the server sees that a is to end
	for range 2 {     // whoever came, and the connection's own goroutine
		<-w.closed
	}
	p.sees("two streams", map[string]int{"waiting": 1, "streams": 1, "left": 0})
	p.answer(a.question.ID, yes)
	if got := string(b.next(t)); !strings.Contains(got, "one=yes") {
		t.Errorf("result: got %s", got)
	}
	if rest, err := io.ReadAll(a.resp.Body); err == nil || len(rest) != 0 {
		t.Errorf("on the older stream: %q, %v, want no more of it", rest, err)
	}
}

func TestAsManyAreKeptAsWasSaid(t *testing.T) {
	p, w := keeper(t, 2)
	for i := range 3 {
		a := p.ask("one")
		a.leave(w)
		if i == 0 { // a call that goes on with its stream makes room
			b := a.goOn(p, 1)
			p.answer(a.question.ID, yes)
			b.next(t)
		}
	}
	p.sees("three left", map[string]int{"waiting": 2, "left": 0})
	p.ask("one").leave(w)
	p.sees("one more left", map[string]int{"waiting": 2, "left": 1})
}

func TestResumeIsRefused(t *testing.T) {
	p, w := keeper(t, 10)
	a := p.ask("one")
	a.leave(w)
	own := strconv.Itoa(a.question.ID) + "-1"
	other := *p
	other.session = ""
	other.initialize()
	large := p.call("large", "one")
	none := start(t, &mock.Server{})
	none.initialize()
	open := none.ask("one")
	for what, resp := range map[string]*http.Response{
		"of another session":         other.resume(own),
		"of no stream":               p.resume("7000-1"),
		"of no event":                p.resume("x"),
		"of a call that is not kept": p.resume(strconv.Itoa(large.question.ID) + "-1"),
		"where nothing is kept":      none.resume(strconv.Itoa(open.question.ID) + "-1"),
	} {
		if resp.StatusCode != 400 {
			t.Errorf("%s: got %s, want 400", what, resp.Status)
		}
	}
}
