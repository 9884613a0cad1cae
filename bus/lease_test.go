package bus

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

func TestExternalServerRestarts(t *testing.T) {
	srv, url := natsServer(t, "")
	a := open(t, Settings{Replica: "a", URL: url})
	b := open(t, Settings{Replica: "b", URL: url})
	serveEcho(b)
	awaitPeers(t, a, 1)
	await(t, "lease", a.Confirmed)
	s, h := opened(t, a, b)

	srv.Shutdown()
	srv.WaitForShutdown()
	for _, one := range []*Bus{a, b} {
		await(t, "disconnect", func() bool { return !one.Status().Connected && one.Status().Reason != "" })
	}
	if _, err := a.Ask(t.Context(), "b", echoKind, nil); !errors.Is(err, ErrDisconnected) {
		t.Errorf("asking: %v, want ErrDisconnected at once", err)
	}
	if err := h.s.Send(h.ctx, nil); !errors.Is(err, ErrLost) {
		t.Errorf("sending: %v, want ErrLost", err)
	}
	if _, err := recv(t, s); !errors.Is(err, ErrLost) {
		t.Errorf("receiving: %v, want ErrLost", err)
	}
	await(t, "end of the lease", func() bool { return !a.Confirmed() })

	natsServer(t, url[len("nats://"):])
	await(t, "lease again", a.Confirmed)
	if ago, _ := a.HeardAgo("b"); ago > brisk {
		t.Errorf("b was heard %s ago: the time without a bus counts as silence", ago)
	}
	awaitPeers(t, a, 1)
	if got := ask(t, a, "b", "again"); got != "again" {
		t.Errorf("answer %q", got)
	}
}

// Without the external server a bus opens, and comes up with it.
func TestOpenBeforeTheServer(t *testing.T) {
	addr := freePort(t)
	a := open(t, Settings{Replica: "a", URL: "nats://" + addr})
	serveEcho(a)
	if st := a.Status(); st.Connected || st.Reason == "" || a.Confirmed() {
		t.Errorf("status %+v, confirmed %v; want neither", st, a.Confirmed())
	}
	natsServer(t, addr)
	await(t, "lease", a.Confirmed)
	if got := ask(t, a, "a", "up"); got != "up" {
		t.Errorf("answer %q", got)
	}
}

// A replica that is killed is lost to its peers within OwnerTimeout, and its
// peers keep their lease: its address refuses connections.
func TestPeerIsKilled(t *testing.T) {
	for _, n := range []int{2, 3} {
		all := cluster(t, n, nil)
		a, b := all[0], all[1]
		serveEcho(b)
		s, h := opened(t, a, b)
		back, _ := opened(t, b, a)
		await(t, "the peer's address", func() bool {
			a.peers.mu.Lock()
			defer a.peers.mu.Unlock()
			return a.peers.m["r1"].addr.IsValid()
		})
		unconfirmed := make(chan struct{})
		stop := make(chan struct{})
		var watched sync.WaitGroup
		watched.Go(func() {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				if !a.Confirmed() {
					close(unconfirmed)
					return
				}
			}
		})
		start := time.Now()
		b.srv.Shutdown() // no goodbye
		if _, err := recv(t, s); !errors.Is(err, ErrLost) {
			t.Errorf("stream: %v, want ErrLost", err)
		}
		if took := time.Since(start); took > 2*brisk {
			t.Errorf("noticed after %s, want about %s", took, brisk)
		}
		_, _ = h, back
		awaitPeers(t, a, n-2)
		await(t, "long silence", func() bool { ago, _ := a.HeardAgo("r1"); return ago > 2*brisk })
		if _, left := a.HeardAgo("r1"); left {
			t.Error("who was killed did not say goodbye")
		}
		close(stop)
		watched.Wait()
		select {
		case <-unconfirmed:
			t.Error("the lease of the one that lives ran out")
		default:
		}
	}
}

// Cut off from a peer that still accepts connections, a replica cannot know
// who of them is alone: its lease runs out, until the peer hears it again.
func TestLeaseAcrossAPartition(t *testing.T) {
	addr := freePort(t)
	wall := newWall(t, addr)
	a := open(t, Settings{Replica: "a", Cluster: Cluster{Listen: addr, Secret: "x"}})
	b := open(t, Settings{Replica: "b", Cluster: Cluster{Listen: freePort(t), Peers: []string{wall.addr}, Secret: "x"}})
	awaitPeers(t, a, 1)
	awaitPeers(t, b, 1)
	s, h := opened(t, a, b)

	wall.cut()
	await(t, "end of the leases", func() bool { return !a.Confirmed() && !b.Confirmed() })
	if ago, _ := b.HeardAgo("a"); ago > brisk+brisk/3 {
		t.Errorf("a was silent for %s before both leases ran out", ago)
	}
	if _, err := recv(t, s); !errors.Is(err, ErrLost) {
		t.Errorf("stream: %v, want ErrLost", err)
	}
	within(t, h.ctx.Done(), "end of the handler's context")
	if err := causeOf(h); !errors.Is(err, ErrLost) || errors.Is(err, ErrReset) {
		t.Errorf("cause %v, want ErrLost", err)
	}
	if st := a.Status(); st.Connected || st.Reason == "" {
		t.Errorf("status %+v", st)
	}
	wall.mend()
	await(t, "leases again", func() bool { return a.Confirmed() && b.Confirmed() })
	awaitPeers(t, a, 1)
}

// An echo counts from when the heartbeat was sent, and old ones do nothing.
func TestOldEcho(t *testing.T) {
	b := &Bus{s: Settings{}.withDefaults(), epoch: time.Now().Add(-time.Minute)}
	now := b.now()
	b.lease.note(1, now-b.timeout()-1)
	b.lease.note(2, now-b.timeout()/2)
	b.confirm(1, now, 0)
	if b.Confirmed() {
		t.Error("an echo of a heartbeat sent too long ago is trusted")
	}
	if b.confirm(2, now, 0); !b.Confirmed() || b.lease.until.Load() != now+b.timeout()-b.timeout()/2 {
		t.Errorf("lease until %d, want %d", b.lease.until.Load(), now+b.timeout()/2)
	}
	b.confirm(3, now, 0)
	b.confirm(2+256, now, 0)
	b.confirm(0, now, 0)
	if b.lease.until.Load() != now+b.timeout()-b.timeout()/2 {
		t.Error("a heartbeat that was never sent is confirmed")
	}
}

// A replica may live that has fallen silent, until it is known to be gone.
func TestMissing(t *testing.T) {
	for name, tt := range map[string]struct {
		mode Mode
		peer func(p *peer, now, timeout int64)
		want bool
	}{
		"live":                {External, func(p *peer, _, _ int64) { p.live = true }, false},
		"silent":              {External, func(*peer, int64, int64) {}, true},
		"left":                {External, func(p *peer, _, _ int64) { p.leave() }, false},
		"silent for long":     {External, func(p *peer, now, timeout int64) { p.heard = now - (requiredFor+1)*timeout }, false},
		"never heard":         {External, func(p *peer, now, _ int64) { p.heard, p.reported = 0, now }, false},
		"silent in a cluster": {Clustered, func(p *peer, _, _ int64) { p.required = true }, true},
		"known to be dead":    {Clustered, func(p *peer, _, _ int64) { p.required = false }, false},
		"silent, and others hear it": {Clustered, func(p *peer, now, timeout int64) {
			p.required, p.heard, p.reported = true, now-(requiredFor+1)*timeout, now
		}, true},
	} {
		b := &Bus{s: Settings{}.withDefaults(), epoch: time.Now().Add(-time.Hour), mode: tt.mode, peers: newPeers(tt.mode)}
		now := b.now()
		p := b.peers.get("other")
		p.heard = now - 2*b.timeout()
		tt.peer(p, now, b.timeout())
		if got := b.Missing(); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// wall is a proxy that can swallow everything.
type wall struct {
	addr string

	mu    sync.Mutex // guards what follows
	up    bool
	conns []net.Conn
}

func newWall(t *testing.T, to string) *wall {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wall{addr: l.Addr().String()}
	var running sync.WaitGroup
	t.Cleanup(func() { l.Close(); w.mend(); running.Wait() })
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			w.mu.Lock()
			w.conns = append(w.conns, in, out)
			w.mu.Unlock()
			running.Go(func() { w.copy(in, out) })
			running.Go(func() { w.copy(out, in) })
		}
	})
	return w
}

func (w *wall) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	_, _ = io.Copy(writer{w, to}, from)
}

// writer drops what is written while the wall is up.
type writer struct {
	w  *wall
	to net.Conn
}

func (x writer) Write(p []byte) (int, error) {
	x.w.mu.Lock()
	up := x.w.up
	x.w.mu.Unlock()
	if up {
		return len(p), nil
	}
	return x.to.Write(p)
}

func (w *wall) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up = true
}

func (w *wall) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up = false
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}
