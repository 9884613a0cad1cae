package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/proxy/downstream"
)

func TestShutdownLetsRequestsFinish(t *testing.T) {
	plain, streaming := newRound(), newRound(notification(progress))
	rounds := []*scriptedRound{plain, streaming}
	begun := make(chan struct{}, 2)
	s := start(t, settings(), &scripted{begin: func(*adapter.Request) (*scriptedRound, error) {
		round := rounds[0]
		rounds = rounds[1:]
		begun <- struct{}{}
		return round, nil
	}})
	first, second, idle := s.dial(t), s.dial(t), s.dial(t)
	first.send(post(callBody))
	<-begun
	second.send(post(callBody))
	resp := second.head()
	piece(t, resp.Body, event(progress))
	idle.send(post(`{"jsonrpc":"2.0","method":"notifications/x"}`))
	idle.answer()

	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(ctx) }()
	if n, err := idle.conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the idle connection: %d, %v", n, err)
	}
	if conn, err := net.Dial("tcp", s.addr); err == nil {
		conn.Close()
		t.Error("a stopping server accepts connections")
	}
	if ok, _ := s.Ready(ctx); ok {
		t.Error("a stopping server says it is ready")
	}
	plain.steps <- result(`{}`)
	if resp, text := first.answer(); resp.StatusCode != 200 || text != emptyResult || !resp.Close {
		t.Errorf("got %d %s, close %v", resp.StatusCode, text, resp.Close)
	}
	// The engine's own shutdown ends streams.
	streaming.steps <- result(`{}`)
	piece(t, resp.Body, event(emptyResult))
	if err := <-stopped; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

func TestShutdownCutsOffWhatDoesNotEnd(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rounds := make(chan *scriptedRound, 2)
	s := New(settings(), downstream.Behind(&scripted{begin: func(*adapter.Request) (*scriptedRound, error) {
		round := newRound()
		rounds <- round
		return round, nil
	}}), zerolog.Nop(), prometheus.NewRegistry())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	c := (&running{Server: s, addr: ln.Addr().String()}).dial(t)
	c.send(post(callBody))
	round := <-rounds
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown: %v", err)
	}
	await(t, round.closed, time.Millisecond, "close of the round")
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	if err := s.Serve(ln); !errors.Is(err, ErrStopped) {
		t.Errorf("serve after shutdown: %v", err)
	}
}

func TestConnectionLimit(t *testing.T) {
	set := settings()
	set.MaxConnections = 1
	s := start(t, set, answering(adapter.Outcome{Result: []byte(`{}`)}))
	first := s.dial(t)
	first.send(post(callBody))
	first.answer()
	second := s.dial(t)
	resp, text := second.answer()
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || parseError(t, text).Error.Data.Reason != "overload" {
		t.Errorf("got %d %q", resp.StatusCode, text)
	}
	first.conn.Close()
	// Its place is free once the server has noticed.
	for deadline := time.Now().Add(waitFor); ; {
		third := s.dial(t)
		if _, err := third.conn.Write([]byte(post(callBody))); err == nil {
			if line, _ := third.r.ReadString('\n'); strings.Contains(line, "200") {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the place stays taken")
		}
	}
}

// Running out of descriptors must not end the server.
func TestAcceptSurvivesExhaustion(t *testing.T) {
	inner := &flaky{errs: []error{
		&net.OpError{Op: "accept", Err: syscall.EMFILE}, &net.OpError{Op: "accept", Err: syscall.ENFILE}, net.ErrClosed,
	}}
	d := &doors{limit: 1, metrics: newMetrics(prometheus.NewRegistry()), closing: make(chan struct{}), conns: map[*conn]struct{}{}}
	if _, err := (&listener{inner, d}).Accept(); !errors.Is(err, net.ErrClosed) || len(inner.errs) > 0 {
		t.Errorf("got %v with %d errors left", err, len(inner.errs))
	}
	close(d.closing)
	inner.errs = []error{syscall.EMFILE, syscall.EMFILE}
	if _, err := (&listener{inner, d}).Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("while closing: %v", err)
	}
}

type flaky struct {
	net.Listener
	errs []error
}

func (f *flaky) Accept() (net.Conn, error) {
	err := f.errs[0]
	f.errs = f.errs[1:]
	return nil, err
}

func TestConnOfFindsOwnConnection(t *testing.T) {
	ours, _ := pair(t)
	own := &conn{Conn: ours, fd: descriptor(ours)}
	if own.fd < 0 || connOf(own) != own || connOf(tls.Server(own, &tls.Config{})) != own || connOf(ours) != nil {
		t.Errorf("fd %d", own.fd)
	}
}

func TestRequestMetrics(t *testing.T) {
	s := start(t, settings(), &scripted{begin: func(req *adapter.Request) (*scriptedRound, error) {
		if string(req.Name) == "bad" {
			return nil, &adapter.Refusal{Reason: adapter.ReasonQuota, Detail: "x"}
		}
		return newRound(result(`{}`)), nil
	}})
	c := s.dial(t)
	for _, request := range []string{
		post(callBody), post(callBody),
		post(strings.Replace(callBody, `"add"`, `"bad"`, 1), "Mcp-Name: bad"),
		post(body("x/y", metaMember), "Mcp-Method: x/y"),
		strings.Replace(post(callBody), "/mcp", "/other", 1),
	} {
		c.send(request)
		c.answer()
	}
	want := map[string]float64{
		"one tools/call 2xx": 2, "one tools/call 4xx": 1, "one other 4xx": 1, " other 4xx": 1, "quota": 1, "method_not_found": 1,
	}
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			var labels []string
			byName := map[string]string{}
			for _, l := range m.Label {
				byName[l.GetName()] = l.GetValue()
			}
			switch family.GetName() {
			case "holdfast_http_requests_total":
				labels = []string{byName["upstream"], byName["method"], byName["status"]}
			case "holdfast_http_errors_total":
				labels = []string{byName["reason"]}
			case "holdfast_http_requests_in_flight", "holdfast_http_streams_open":
				if m.Gauge.GetValue() != 0 {
					t.Errorf("%s is %v", family.GetName(), m.Gauge.GetValue())
				}
				continue
			default:
				continue
			}
			key := strings.Join(labels, " ")
			if got := m.Counter.GetValue(); got != want[key] {
				t.Errorf("%s %q is %v, want %v", family.GetName(), key, got, want[key])
			}
			delete(want, key)
		}
	}
	if len(want) > 0 {
		t.Errorf("not counted: %v", want)
	}
}

// However a request's bytes arrive, it is read whole: what is read together
// with its first byte is not all of it.
func TestRequestInPieces(t *testing.T) {
	var got int
	s := start(t, settings(), &scripted{begin: func(req *adapter.Request) (*scriptedRound, error) {
		got = len(req.Args)
		return newRound(result(`{}`)), nil
	}})
	c := s.dial(t)
	for _, size := range []int{10, 3000, 5000, 100_000} {
		args := `{"a":"` + strings.Repeat("x", size) + `"}`
		text := post(strings.Replace(callBody, `{"a":1}`, args, 1))
		for _, cuts := range [][]int{{len(text)}, {1, len(text)}, {1, 2, 100, len(text) - 1, len(text)}} {
			from := 0
			for _, to := range cuts {
				c.send(text[from:to])
				from = to
			}
			if resp, body := c.answer(); resp.StatusCode != 200 || got != len(args) {
				t.Fatalf("size %d in %d pieces: got %d bytes, %d %s", size, len(cuts), got, resp.StatusCode, body)
			}
		}
	}
}
