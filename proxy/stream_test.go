package proxy

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/proxy/downstream"
)

const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`

// piece reads exactly want of a body, or says what came instead.
func piece(t *testing.T, body io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(body, got)
	if string(got[:n]) != want {
		t.Fatalf("got %q (%v), want %q", got[:n], err, want)
	}
}

func event(text string) string { return "event: message\ndata: " + text + "\n\n" }

const emptyResult = `{"jsonrpc":"2.0","id":"c1","result":{"resultType":"complete"}}`

func checkStream(t *testing.T, resp *http.Response) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
	} {
		if got := resp.Header.Get(name); resp.StatusCode != 200 || got != want {
			t.Errorf("status %d, %s is %q, want %q", resp.StatusCode, name, got, want)
		}
	}
}

func TestNotificationBeginsStream(t *testing.T) {
	round := newRound(notification("{\n\"a\":\r\n1}"))
	s := start(t, settings(), playing(round))
	c := s.dial(t)
	c.send(post(callBody))
	resp := c.head()
	checkStream(t, resp)
	// The message is there before the next one is: nothing is held back.
	piece(t, resp.Body, event(`{ "a":  1}`))
	round.steps <- notification(progress)
	piece(t, resp.Body, event(progress))
	round.steps <- result(`{}`)
	piece(t, resp.Body, event(emptyResult))
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("after the response: %q, %v", rest, err)
	}
	await(t, round.closed, waitFor, "close of the round")

	// The connection lives on.
	round = newRound(result(`{}`))
	s.engine = downstream.Behind(playing(round))
	c.send(post(callBody))
	if resp, _ := c.answer(); resp.StatusCode != 200 {
		t.Errorf("after the stream: %d", resp.StatusCode)
	}
}

func TestSilenceBeginsStream(t *testing.T) {
	round := newRound()
	set := settings()
	set.StreamAfter, set.KeepAlive = 60*time.Millisecond, 30*time.Millisecond
	c := start(t, set, playing(round)).dial(t)
	c.send(post(callBody))
	resp := c.head()
	checkStream(t, resp)
	for range 3 {
		piece(t, resp.Body, ": keep-alive\n\n")
	}
	round.steps <- result(`{}`)
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(string(rest), event(emptyResult)) {
		t.Errorf("got %q, %v", rest, err)
	}
}

// A stream that ends without a response leaves real clients waiting.
func TestErrorEndsStream(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"refusal":      {&adapter.Refusal{Reason: adapter.ReasonSlowClient, Detail: "slow"}, `"code":-32603,"message":"slow","data":{"reason":"slow_client"}`},
		"unexpected":   {errors.New("secret"), `"message":"Internal error"`},
		"unauthorized": {&adapter.Unauthorized{Status: 401}, `"code":-32600`},
	} {
		t.Run(name, func(t *testing.T) {
			client := start(t, settings(), playing(newRound(notification(progress), c.err))).dial(t)
			client.send(post(callBody))
			resp, text := client.answer()
			checkStream(t, resp)
			if !strings.HasPrefix(text, event(progress)+`event: message`+"\n"+`data: {"jsonrpc":"2.0","id":"c1","error":{`) ||
				!strings.Contains(text, c.want) || !strings.HasSuffix(text, "}}\n\n") || strings.Contains(text, "secret") {
				t.Errorf("got %s", text)
			}
		})
	}
}

// HTTP/1.0 has no chunks: its clients, such as an nginx in its default
// settings, wait for the outcome.
func TestNoStreamOnHTTP10(t *testing.T) {
	set := settings()
	set.StreamAfter, set.KeepAlive = time.Millisecond, time.Millisecond
	round := newRound(notification(progress))
	c := start(t, set, playing(round)).dial(t)
	c.send(strings.Replace(post(callBody), "HTTP/1.1", "HTTP/1.0", 1))
	time.AfterFunc(3*watchAfter, func() { round.steps <- result(`{}`) })
	if resp, text := c.answer(); resp.StatusCode != 200 || text != emptyResult {
		t.Errorf("got %d %q", resp.StatusCode, text)
	}
}

// panicking is an engine whose second Next panics.
type panicking struct{ *scriptedRound }

func (r panicking) Next(until time.Time) (adapter.Event, error) {
	select {
	case step := <-r.steps:
		return step.(adapter.Event), nil
	default:
		panic("secret")
	}
}

func TestPanicEndsStream(t *testing.T) {
	round := newRound(notification(progress))
	s := start(t, settings(), playing(nil))
	s.engine = beginning{downstream.Behind(playing(nil)), panicking{round}}
	c := s.dial(t)
	c.send(post(callBody))
	resp := c.head()
	piece(t, resp.Body, event(progress))
	if rest, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the stream ended as if all were well, after %q", rest)
	}
	await(t, round.closed, waitFor, "close of the round")
}

// beginning is an engine that begins with one round of any type.
type beginning struct {
	downstream.Engine
	round downstream.Round
}

func (b beginning) Begin(*adapter.Request) (downstream.Round, error) { return b.round, nil }

// A client that reads nothing is given up when a write has waited for
// WriteTimeout.
func TestStuckClientIsGivenUp(t *testing.T) {
	big := notification(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)
	round := newRound(big)
	set := settings()
	set.WriteTimeout = 100 * time.Millisecond
	c := start(t, set, playing(round)).dial(t)
	c.send(post(callBody))
	for {
		select {
		case round.steps <- big:
			continue
		case <-round.closed:
			return
		case <-time.After(waitFor):
			t.Fatal("the round goes on")
		}
	}
}
