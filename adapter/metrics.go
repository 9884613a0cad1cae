package adapter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the engine's counters. The zero value counts nothing.
type Metrics struct {
	events *prometheus.CounterVec
	rounds *prometheus.CounterVec
	times  *prometheus.HistogramVec
	reg    prometheus.Registerer
}

// NewMetrics registers the engine's metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{reg: reg, events: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "holdfast_call_events_total",
		Help: "What happened to calls: parked, asked_first, expired, cancelled, unknown_key, taken_over, replayed.",
	}, []string{"event"})}
	m.rounds = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "holdfast_rounds_total",
		Help: "Rounds by how they were served: local, forwarded (to the replica that has the call), taken_over, replayed, refused.",
	}, []string{"served"})
	m.times = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "holdfast_round_duration_seconds", Help: "Time that rounds with a request state took, by how they were served.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
	}, []string{"served"})
	reg.MustRegister(m.events, m.rounds, m.times)
	return m
}

// unknownKey notes that a request state came of a key that this replica lacks.
func (e *Engine) unknownKey() {
	e.metrics.unknownKey()
	if e.strange.Swap(time.Now().UnixNano()) == 0 {
		e.log.Warn().Msg("a request state was sealed with a key that this replica does not have: all replicas need the same keys (state.keys, state.key_file)")
	}
}

// metrics holds the children, so that counting looks nothing up.
type metrics struct {
	rounds [servedKinds]prometheus.Counter
	times  [servedKinds]prometheus.Observer

	parkedCalls, askedFirst, expiredCalls, cancelledCalls, unknownKeys, takenOverCalls, replayedCalls prometheus.Counter
}

func (m *Metrics) bind(e *Engine) *metrics {
	if m == nil {
		return nil
	}
	gauge := func(name, help string, value func() float64) {
		m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("holdfast_rounds_in_flight", "Rounds of clients in progress.", func() float64 { return float64(e.inFlight()) })
	gauge("holdfast_calls_parked", "Calls that wait for their clients.", func() float64 { return float64(e.calls.parkedCalls()) })
	gauge("holdfast_calls_released", "Calls that wait for their clients, and whose streams were let go, with those that are over until the server was told.", func() float64 { return float64(e.calls.releasedCalls()) })
	gauge("holdfast_undelivered_bytes", "Notifications that wait for clients.", func() float64 { return float64(e.calls.stock.held()) })
	gauge("holdfast_listeners", "Open subscriptions.", func() float64 {
		e.mu.Lock()
		defer e.mu.Unlock()
		return float64(len(e.listeners) - e.parts)
	})
	for _, g := range e.groups {
		m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "holdfast_upstream_sessions", Help: "Sessions with the upstream, open or opening.",
			ConstLabels: prometheus.Labels{"upstream": g.name},
		}, func() float64 {
			n := 0
			for _, up := range g.list() {
				n += up.Server.Sessions()
			}
			return float64(n)
		}))
	}
	bound := &metrics{
		parkedCalls: m.events.WithLabelValues("parked"), askedFirst: m.events.WithLabelValues("asked_first"),
		expiredCalls: m.events.WithLabelValues("expired"), cancelledCalls: m.events.WithLabelValues("cancelled"),
		unknownKeys:    m.events.WithLabelValues("unknown_key"),
		takenOverCalls: m.events.WithLabelValues("taken_over"), replayedCalls: m.events.WithLabelValues("replayed"),
	}
	for s := range servedKinds {
		bound.rounds[s], bound.times[s] = m.rounds.WithLabelValues(s.String()), m.times.WithLabelValues(s.String())
	}
	return bound
}

func (m *metrics) parked(first bool) {
	if m == nil {
		return
	}
	m.parkedCalls.Inc()
	if first {
		m.askedFirst.Inc()
	}
}

func (m *metrics) expired() {
	if m != nil {
		m.expiredCalls.Inc()
	}
}

func (m *metrics) cancelled() {
	if m != nil {
		m.cancelledCalls.Inc()
	}
}

func (m *metrics) unknownKey() {
	if m != nil {
		m.unknownKeys.Inc()
	}
}

func (m *metrics) takenOver() {
	if m != nil {
		m.takenOverCalls.Inc()
	}
}

func (m *metrics) replayed() {
	if m != nil {
		m.replayedCalls.Inc()
	}
}

// round counts a round. began is zero for one without a request state.
//
// Hot: once per request.
func (m *metrics) round(s Served, began time.Time) {
	if m == nil {
		return
	}
	m.rounds[s].Inc()
	if !began.IsZero() {
		m.times[s].Observe(time.Since(began).Seconds())
	}
}
