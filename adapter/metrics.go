package adapter

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the engine's counters. The zero value counts nothing.
type Metrics struct {
	events *prometheus.CounterVec
	reg    prometheus.Registerer
}

// NewMetrics registers the engine's metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{reg: reg, events: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "holdfast_call_events_total",
		Help: "What happened to calls: parked, asked_first, expired, cancelled, unknown_key.",
	}, []string{"event"})}
	reg.MustRegister(m.events)
	return m
}

// metrics holds the children, so that counting looks nothing up.
type metrics struct {
	parkedCalls, askedFirst, expiredCalls, cancelledCalls, unknownKeys prometheus.Counter
}

func (m *Metrics) bind(e *Engine) *metrics {
	if m == nil {
		return nil
	}
	gauge := func(name, help string, value func() float64) {
		m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("holdfast_rounds_in_flight", "Rounds of clients in progress.", func() float64 { return float64(e.rounds.Load()) })
	gauge("holdfast_calls_parked", "Calls that wait for their clients.", func() float64 { return float64(e.calls.parkedCalls()) })
	gauge("holdfast_listeners", "Open subscriptions.", func() float64 {
		e.mu.Lock()
		defer e.mu.Unlock()
		return float64(len(e.listeners))
	})
	for _, u := range e.upstreams {
		m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "holdfast_upstream_sessions", Help: "Sessions with the upstream, open or opening.",
			ConstLabels: prometheus.Labels{"upstream": u.Name},
		}, func() float64 { return float64(u.Server.Sessions()) }))
	}
	return &metrics{
		parkedCalls: m.events.WithLabelValues("parked"), askedFirst: m.events.WithLabelValues("asked_first"),
		expiredCalls: m.events.WithLabelValues("expired"), cancelledCalls: m.events.WithLabelValues("cancelled"),
		unknownKeys: m.events.WithLabelValues("unknown_key"),
	}
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
