package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/bus"
	"github.com/holdfast-mcp/holdfast/config"
)

// link is the bus as the engine sees it.
type link struct {
	bus      *bus.Bus
	patience time.Duration
	started  time.Time
	engine   atomic.Pointer[adapter.Engine]
	log      zerolog.Logger
	large    chan struct{} // has room for each message that is sent on a stream of its own
	sending  sync.WaitGroup
}

// maxLarge bounds the told messages that are under way on streams of their own.
const maxLarge = 16

func openBus(c *config.Config, replica string, log zerolog.Logger) (*link, error) {
	l := &link{patience: c.Bus.OwnerTimeout, started: time.Now(), log: log, large: make(chan struct{}, maxLarge)}
	b, err := bus.Open(bus.Settings{
		Replica: replica, Namespace: c.Bus.Namespace, Version: buildVersion(),
		URL: c.Bus.URL, CredentialsFile: c.Bus.CredentialsFile, NKeyFile: c.Bus.NKeyFile, Token: c.Bus.Token, TLS: busTLS(c.Bus.TLS),
		Cluster: bus.Cluster{
			Listen: c.Bus.Cluster.Listen, Peers: c.Bus.Cluster.Peers, Name: c.Bus.Cluster.Name,
			Secret: c.Bus.Cluster.Secret, TLS: busTLS(c.Bus.Cluster.TLS),
		},
		OwnerTimeout: c.Bus.OwnerTimeout, Window: int(c.Bus.Window), MaxStreams: c.Bus.MaxStreams,
		MaxMessage: maxBusMessage(c), About: l.about,
	}, log)
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	l.bus = b
	return l, nil
}

// maxBusMessage admits every request and every message of an upstream.
func maxBusMessage(c *config.Config) int {
	return 2*max(int(c.HTTP.MaxBody), int(c.Upstream.MaxMessage)) + 1<<20
}

func busTLS(t config.TLS) bus.TLS { return bus.TLS{Cert: t.Cert, Key: t.Key, CA: t.CA} }

// serve hands what the other replicas ask and tell to the engine.
func (l *link) serve(e *adapter.Engine) (stop func()) {
	l.engine.Store(e)
	for _, kind := range []adapter.Kind{adapter.KindRound, adapter.KindSeek, adapter.KindKeep, adapter.KindSession, adapter.KindNote} {
		l.bus.Handle(byte(kind), func(ctx context.Context, s *bus.Stream, first []byte) {
			served, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			stop := context.AfterFunc(ctx, func() { cancel(busError(context.Cause(ctx))) })
			defer stop()
			e.ServeStream(served, s.Peer(), kind, stream{s}, first)
		})
	}
	l.bus.HandleTell(byte(adapter.KindNote), func(from string, message []byte) { e.Hear(from, adapter.KindNote, message) })
	return l.bus.Watch(e.PeersChanged)
}

// Ask implements adapter.Bus.
func (l *link) Ask(ctx context.Context, replica string, kind adapter.Kind, first []byte) (adapter.Stream, error) {
	s, err := l.bus.Ask(ctx, replica, byte(kind), first)
	if err != nil {
		return nil, busError(err)
	}
	return stream{s}, nil
}

// Tell implements adapter.Bus. What is too large for one message goes on a
// stream of its own.
func (l *link) Tell(replica string, kind adapter.Kind, message []byte) {
	err := l.bus.Tell(replica, byte(kind), message)
	if errors.Is(err, bus.ErrTooLarge) {
		err = l.tellLarge(replica, kind, message)
	}
	if err != nil {
		l.log.Debug().Err(err).Str("peer", replica).Msg("message for another replica not sent")
	}
}

func (l *link) tellLarge(replica string, kind adapter.Kind, message []byte) error {
	select {
	case l.large <- struct{}{}:
	default:
		return errors.New("too many large messages are under way")
	}
	l.sending.Add(1)
	go func() { // ends with the bus, if not before
		defer l.sending.Done()
		defer func() { <-l.large }()
		s, err := l.bus.Ask(context.Background(), replica, byte(kind), message)
		if err != nil {
			return
		}
		defer s.Close()
		_, _ = s.Recv(time.Now().Add(l.patience)) // until it was taken
	}()
	return nil
}

// close leaves the bus. Nothing may be asked or told any more.
func (l *link) close(ctx context.Context) {
	l.bus.Close(ctx)
	l.sending.Wait()
}

// Live implements adapter.Bus. Without the bus nobody can be reached, whoever
// may live.
func (l *link) Live() []string {
	if !l.bus.Confirmed() {
		return nil
	}
	peers := l.bus.Peers()
	ids := make([]string, len(peers))
	for i, p := range peers {
		ids[i] = p.ID
	}
	return ids
}

// Staying implements adapter.Bus.
func (l *link) Staying() []string {
	return l.peers(func(r adapter.Report) bool { return !r.Leaving })
}

// Serving implements adapter.Bus.
func (l *link) Serving() []string {
	return l.peers(func(r adapter.Report) bool { return !r.Deserted })
}

// peers are the live replicas whose reports are like that.
func (l *link) peers(like func(adapter.Report) bool) (ids []string) {
	for _, p := range l.bus.Peers() {
		if like(reportOf(p.About)) {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// Announce implements adapter.Bus.
func (l *link) Announce() { l.bus.Announce() }

// about is what the heartbeats tell of this replica.
func (l *link) about() []byte {
	e := l.engine.Load()
	if e == nil {
		return nil
	}
	text, _ := json.Marshal(e.Report()) // numbers always marshal
	return text
}

// reportOf reads what about has written. What is not understood is empty.
func reportOf(about []byte) (r adapter.Report) {
	_ = json.Unmarshal(about, &r)
	return r
}

// register registers the metrics of the bus.
func (l *link) register(reg prometheus.Registerer) {
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "holdfast_bus_peers", Help: "Other replicas that are known to live."},
			func() float64 { return float64(l.bus.Status().Peers) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "holdfast_bus_dropped_total", Help: "Messages of other replicas that came faster than they could be read, and were lost."},
			func() float64 { return float64(l.bus.Status().Dropped) }),
	)
}

// Heard implements adapter.Bus.
func (l *link) Heard(replica string) (time.Duration, bool) { return l.bus.HeardAgo(replica) }

// Confirmed implements adapter.Bus.
func (l *link) Confirmed() bool { return l.bus.Confirmed() }

// Missing implements adapter.Bus.
func (l *link) Missing() bool { return l.bus.Missing() }

// Status implements adapter.Bus.
func (l *link) Status() (bool, string) {
	s := l.bus.Status()
	return s.Connected, s.Reason
}

// replicas are all replicas that are known to live, this one first, for
// /replicas.
func (l *link) replicas() any {
	now := time.Now()
	status := l.bus.Status()
	var report adapter.Report
	if e := l.engine.Load(); e != nil {
		report = e.Report()
	}
	list := []Replica{{
		ID: l.bus.Replica(), Version: buildVersion(), Self: true, Uptime: round(now.Sub(l.started)),
		RoundTrip: round(status.RoundTrip), Report: report,
	}}
	for _, p := range l.bus.Peers() {
		r := Replica{ID: p.ID, Version: p.Version, RoundTrip: round(p.RTT), Heard: round(now.Sub(p.Heard)), Report: reportOf(p.About)}
		r.Uptime = round(now.Sub(p.Since))
		list = append(list, r)
	}
	return Replicas{Bus: string(status.Mode), Connected: status.Connected, Reason: status.Reason, Replicas: list}
}

// Replicas is what /replicas answers.
type Replicas struct {
	Bus       string    `json:"bus"` // embedded, cluster or external
	Connected bool      `json:"connected"`
	Reason    string    `json:"reason,omitempty"` // why not
	Replicas  []Replica `json:"replicas"`
}

// Replica is one of them.
type Replica struct {
	ID        string  `json:"id"`
	Version   string  `json:"version"`
	Self      bool    `json:"self,omitempty"`
	Uptime    float64 `json:"uptime"`          // seconds
	RoundTrip float64 `json:"round_trip"`      // over the bus, in seconds; 0: not measured
	Heard     float64 `json:"heard,omitempty"` // seconds since it was last heard of
	adapter.Report
}

// round gives seconds, to the microsecond.
func round(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }

// Lapses implements adapter.Bus.
func (l *link) Lapses() uint64 { return l.bus.Lapses() }

// Patience implements adapter.Bus.
func (l *link) Patience() time.Duration { return l.patience }

// stream is a bus.Stream with the engine's errors.
type stream struct{ *bus.Stream }

func (s stream) Send(ctx context.Context, message []byte) error {
	return busError(s.Stream.Send(ctx, message))
}

func (s stream) End(ctx context.Context, message []byte) error {
	return busError(s.Stream.End(ctx, message))
}

func (s stream) Recv(until time.Time) ([]byte, error) {
	message, err := s.Stream.Recv(until)
	return message, busError(err)
}

// busError names an error as the engine does.
func busError(err error) error {
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return err
	case errors.Is(err, bus.ErrDeadline):
		return adapter.ErrDeadline
	case errors.Is(err, bus.ErrReset):
		return fmt.Errorf("%w: %w", adapter.ErrClosed, err)
	case errors.Is(err, bus.ErrLost) && errors.Is(err, bus.ErrLeft): // it had the stream
		return fmt.Errorf("%w: %w", adapter.ErrLost, err)
	case errors.Is(err, bus.ErrNoReplica), errors.Is(err, bus.ErrLeft), errors.Is(err, bus.ErrRefused):
		return fmt.Errorf("%w: %w", adapter.ErrNobody, err)
	case errors.Is(err, bus.ErrTooLarge):
		return fmt.Errorf("%w: %w", adapter.ErrTooLarge, err)
	case errors.Is(err, bus.ErrDisconnected):
		return fmt.Errorf("%w: %w", adapter.ErrBusDown, err)
	}
	return fmt.Errorf("%w: %w", adapter.ErrLost, err)
}
