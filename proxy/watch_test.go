package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/proxy/downstream"
)

// The promise: a client that closes its connection cancels its call within a
// second, also while nothing has been written.
const noticed = time.Second

func needPoll(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Fatal("this system cannot tell that a silent client is gone")
	}
}

func TestClientGoneBeforeAnswer(t *testing.T) {
	needPoll(t)
	for name, leave := range map[string]func(*client){
		"closed": func(c *client) { c.conn.Close() },
		"reset": func(c *client) {
			if err := c.conn.(*net.TCPConn).SetLinger(0); err != nil {
				c.t.Fatal(err)
			}
			c.conn.Close()
		},
		"half closed": func(c *client) {
			if err := c.conn.(*net.TCPConn).CloseWrite(); err != nil {
				c.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			round := newRound()
			c := start(t, settings(), begun(round)).dial(t)
			c.send(post(callBody))
			<-round.steps // it has begun
			leave(c)
			await(t, round.gone, noticed, "Gone")
			await(t, round.closed, waitFor, "close of the round")
		})
	}
}

// begun is an engine that puts a word on steps when it begins.
func begun(round *scriptedRound) *scripted {
	return &scripted{begin: func(*adapter.Request) (*scriptedRound, error) {
		started := &scriptedRound{steps: make(chan any), gone: round.gone, closed: round.closed}
		round.steps <- "begun"
		return started, nil
	}}
}

func TestClientGoneBehindPipelinedRequest(t *testing.T) {
	needPoll(t)
	if runtime.GOOS != "linux" {
		t.Log("without POLLRDHUP the second request hides the end")
		return
	}
	round := newRound()
	c := start(t, settings(), begun(round)).dial(t)
	c.send(post(callBody) + post(callBody))
	<-round.steps
	c.conn.Close()
	await(t, round.gone, noticed, "Gone")
}

func TestClientGoneDuringStream(t *testing.T) {
	needPoll(t)
	round := newRound(notification(progress))
	c := start(t, settings(), playing(round)).dial(t)
	c.send(post(callBody))
	piece(t, c.head().Body, event(progress))
	c.conn.Close()
	await(t, round.gone, noticed, "Gone")
	await(t, round.closed, waitFor, "close of the round")
}

func TestClientGoneOverTLS(t *testing.T) {
	needPoll(t)
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS()
	defer web.Close()
	set := settings()
	set.TLS = &tls.Config{Certificates: web.TLS.Certificates}
	round := newRound()
	s := start(t, set, begun(round))
	conn, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte(post(callBody))); err != nil {
		t.Fatal(err)
	}
	<-round.steps
	conn.Close() // sends close_notify before the FIN
	await(t, round.gone, noticed, "Gone")
}

// A request that was pipelined behind another by a client that has left since
// must not run.
func TestPipelinedRequestOfGoneClientDoesNotRun(t *testing.T) {
	needPoll(t)
	rounds := make(chan *scriptedRound, 3)
	s := start(t, settings(), &scripted{begin: func(*adapter.Request) (*scriptedRound, error) {
		round := newRound()
		rounds <- round
		return round, nil
	}})
	c := s.dial(t)
	c.send(post(callBody) + post(callBody))
	first := <-rounds
	c.conn.Close()
	// The first request's outcome comes before the watcher's next look.
	first.steps <- result(`{}`)
	await(t, first.closed, waitFor, "close of the first round")
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if len(rounds) > 0 {
		t.Error("the second request ran")
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	n := 0
	s := start(t, settings(), &scripted{begin: func(req *adapter.Request) (*scriptedRound, error) {
		if n++; n == 2 {
			return newRound(notification(progress), result(`{}`)), nil
		}
		return newRound(result(`{}`)), nil
	}})
	c := s.dial(t)
	c.send(post(callBody) + post(callBody) + post(callBody))
	for i, want := range []string{emptyResult, event(progress) + event(emptyResult), emptyResult} {
		if _, text := c.answer(); text != want {
			t.Errorf("answer %d is %q, want %q", i+1, text, want)
		}
	}
}

// After stop neither the descriptor nor the round is touched, however a poll
// and a Gone are under way.
func TestWatcherStop(t *testing.T) {
	w := newWatcher()
	defer w.close()
	ours, theirs := pair(t)
	theirs.Close()
	slow := &slowGone{entered: make(chan struct{}), leave: make(chan struct{})}
	x := w.add(descriptor(ours), slow)
	<-slow.entered
	stopped := make(chan struct{})
	go func() { w.stop(x); close(stopped) }()
	select {
	case <-stopped:
		t.Error("stop returned during Gone")
	case <-time.After(20 * time.Millisecond):
	}
	close(slow.leave)
	await(t, stopped, waitFor, "stop")
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) > 0 {
		t.Error("the watch is still there")
	}
}

type slowGone struct {
	downstream.Round
	entered, leave chan struct{}
}

func (s *slowGone) Gone() { close(s.entered); <-s.leave }

func TestWatcherCloseTellsAll(t *testing.T) {
	w := newWatcher()
	ours, _ := pair(t)
	before, after := newRound(), newRound()
	x := w.add(descriptor(ours), before)
	w.close()
	await(t, before.gone, waitFor, "Gone of one that waits")
	w.stop(x)
	w.stop(w.add(descriptor(ours), after))
	await(t, after.gone, waitFor, "Gone of one that comes later")
	w.close()
}

func pair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if theirs, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if ours, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

func BenchmarkWatch(b *testing.B) {
	s := New(settings(), downstream.Behind(failing(nil)), zerolog.Nop(), prometheus.NewRegistry())
	defer s.watcher.close()
	round := newRound()
	b.ReportAllocs()
	for b.Loop() {
		s.watcher.stop(s.watcher.add(0, round))
	}
}
