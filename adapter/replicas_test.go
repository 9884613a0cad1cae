package adapter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// replicas are several engines in front of one rawserver, on one lan.
type replicas struct {
	t    *testing.T
	lan  *lan
	raw  *rawserver.Server
	rigs []*rig
	logs *logs

	mu   sync.Mutex
	dead map[string]bool
}

// newReplicas ends with the test, and fails it when anything of a call is left
// at a replica that lives.
func newReplicas(t *testing.T, n int, changes ...change) *replicas {
	t.Helper()
	f := &replicas{t: t, lan: newLan(), logs: &logs{}, dead: make(map[string]bool)}
	var shape rawserver.Settings
	for _, c := range changes {
		s, l := testSettings(), legacySettings("up", "")
		c(&s, &l, &shape)
	}
	f.raw = rawserver.New(t, shape)
	f.raw.Hook(func(x *rawserver.Exchange) bool { // what a dead process sends
		f.mu.Lock()
		dead := f.dead[x.Record.Header.Get("X-Replica")]
		f.mu.Unlock()
		if dead {
			x.Drop()
		}
		return dead
	})
	ring, err := state.NewRing(state.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		f.add(fmt.Sprintf("r%d", i+1), ring, changes...)
	}
	t.Cleanup(f.end)
	return f
}

// add starts one more replica.
func (f *replicas) add(id string, ring *state.Ring, changes ...change) *rig {
	f.t.Helper()
	settings, upstream := testSettings(), legacySettings("up", f.raw.URL)
	settings.Replica, settings.MaxReleased = id, 1000
	settings.ParamHeaders = func(fields []Field) ParamChecker { return paramFields(fields) }
	for _, c := range changes {
		c(&settings, &upstream, &rawserver.Settings{})
	}
	p := f.lan.join(id)
	settings.Bus = p
	upstream.IDPrefix, upstream.Peers, upstream.Affinity = id, NewPeers(p, ring, id, "up"), true
	upstream.Headers = append(upstream.Headers, legacy.Field{Name: "X-Replica", Value: id})
	log := zerolog.New(f.logs).With().Str("replica", id).Logger()
	server, err := legacy.NewServer(upstream, log)
	if err != nil {
		f.t.Fatal(err)
	}
	e := NewEngine(settings, []Upstream{{Name: "up", Endpoints: []Endpoint{{Server: server, Protocol: ProtocolLegacy}}}}, ring, log, nil)
	f.lan.change(func() { p.engine = e })
	r := &rig{Engine: e, t: f.t, raw: f.raw}
	f.rigs = append(f.rigs, r)
	return r
}

func (r *rig) port() *port { return r.settings.Bus.(*port) }

// die ends a replica as SIGKILL does, so far as others can tell: it says
// nothing any more, on the bus or to the server.
func (f *replicas) die(r *rig) {
	f.mu.Lock()
	f.dead[r.settings.Replica] = true
	f.mu.Unlock()
	r.port().unplug()
}

// giveUp lets so much time pass that a silent replica's calls may be taken over.
func (f *replicas) giveUp() { f.lan.advance(2 * f.lan.patience) }

// lose lets a replica die, and be given up.
func (f *replicas) lose(r *rig) {
	f.die(r)
	f.giveUp()
}

func (f *replicas) end() {
	for _, r := range f.rigs {
		r.finishAll()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		f.mu.Lock()
		dead := f.dead[r.settings.Replica]
		f.mu.Unlock()
		if dead {
			cancel() // what it would do no one is to see
			f.giveUp()
		} else {
			r.port().revoke(false)
			r.port().plug()
		}
		r.Shutdown(ctx)
		cancel()
		r.port().goodbye()
		if !dead {
			r.checkEmpty()
		}
	}
	f.lan.serving.Wait()
	if n := len(f.lan.talks); n != 0 {
		f.t.Errorf("%d streams between replicas are left", n)
	}
	if len(f.dead) == 0 && !f.t.Failed() { // over HTTP+SSE the server sees only that a connection has gone
		f.raw.Wait("the end of all sessions", func() bool { return len(f.raw.Sessions()) == 0 })
	}
}

// finishAll is for tests that have failed in mid-round.
func (r *rig) finishAll() {
	for _, c := range r.calls.all() {
		c.mu.Lock()
		rounds := append([]*callRound(nil), c.rounds...)
		c.mu.Unlock()
		for _, round := range rounds {
			if r.t.Failed() {
				round.Gone()
			}
		}
	}
}

func (r *rig) checkEmpty() {
	r.t.Helper()
	c := &r.calls
	if n := r.rounds.Load(); n != 0 || c.parked != 0 || len(c.perCaller) != 0 || c.lasting != 0 || len(c.lastingOf) != 0 || len(c.live) != 0 || len(c.named) != 0 || c.kept.Len() != 0 || c.keptBytes != 0 || len(c.released) != 0 {
		r.t.Errorf("%s: left over: %d rounds, %d parked of %d callers, %d live, %d named, %d kept of %d bytes, %d released", r.settings.Replica,
			n, c.parked, len(c.perCaller), len(c.live), len(c.named), c.kept.Len(), c.keptBytes, len(c.released))
	}
	r.checkStock("the end")
	if n := r.upstreams()["up"].Server.Sessions(); n != 0 {
		r.t.Errorf("%s: %d sessions left", r.settings.Replica, n)
	}
}

// posted are the responses that replicas have posted, as "replica:id=answer".
func (f *replicas) posted() (list []string) {
	for _, record := range f.raw.Records() {
		for _, m := range record.Messages {
			if m.Method == "" && m.ID != nil {
				text := string(m.Result)
				if m.Error != nil {
					text = m.Error.Error()
				}
				list = append(list, record.Header.Get("X-Replica")+":"+string(m.ID)+"="+text)
			}
		}
	}
	return list
}

// sentBy counts the HTTP requests of a replica.
func (f *replicas) sentBy(r *rig) (n int) {
	for _, record := range f.raw.Records() {
		if record.Header.Get("X-Replica") == r.settings.Replica {
			n++
		}
	}
	return n
}

// served plays a round, and holds how it was served against want.
func (r *rig) served(q query, want Served) *Outcome {
	r.t.Helper()
	v := r.mustBegin(q)
	o, _, err := v.finish()
	if err != nil {
		r.t.Fatalf("%s %s at %s: %v", q.method, q.params, r.settings.Replica, err)
	}
	if got := v.Served(); got != want {
		r.t.Errorf("%s %s at %s was served as %s, want %s", q.method, q.params, r.settings.Replica, got, want)
	}
	return o
}

// result is how a round ended.
type result struct {
	*Outcome
	told []string
	err  error
}

// goes drives a round in the background.
func (v *visit) goes() <-chan result {
	done := make(chan result, 1)
	go func() {
		o, told, err := v.finish()
		done <- result{o, told, err}
	}()
	return done
}

// endOf returns how a round ended that goes has driven.
func endOf(t *testing.T, done <-chan result) result {
	t.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(20 * time.Second):
		t.Fatal("the round did not end")
		return result{}
	}
}

// noEventIDs makes a server whose streams cannot be resumed.
func noEventIDs(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) { raw.NoEventIDs = true }

// primed makes a server whose streams can be resumed before anything is said on
// them.
func primed(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) { raw.Prime = true }

// paramFields is a ParamChecker that wants each ruled header to be there.
type paramFields []Field

func (p paramFields) Fields() []Field { return p }

func (p paramFields) CheckParams(rules []mcp.ParamRule, _ []byte) error {
	for _, rule := range rules {
		found := false
		for _, f := range p {
			found = found || http.CanonicalHeaderKey(f.Name) == http.CanonicalHeaderKey(rule.Header)
		}
		if !found {
			return errors.New("no header " + rule.Header)
		}
	}
	return nil
}

// logs collects what engines log.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
