package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/proxy/downstream"
)

// metrics are the proxy's. Their label values are fixed sets, and all
// children exist from the start, so that counting is one atomic addition.
type metrics struct {
	inFlight, streams, connections prometheus.Gauge
	connectionsRefused             prometheus.Counter
	refusals                       map[adapter.Reason]prometheus.Counter
	requests                       *prometheus.CounterVec
	duration                       *prometheus.HistogramVec
	other                          *routeMetrics // requests that no route takes
}

// routeMetrics are those of one upstream.
type routeMetrics struct {
	requests [len(methods)][len(classes)]prometheus.Counter
	duration [len(methods)]prometheus.Observer
}

// Methods that requests are counted by. The first stands for all others.
var methods = [...]string{
	"other", mcp.MethodToolsCall, mcp.MethodToolsList, mcp.MethodPromptsGet, mcp.MethodPromptsList,
	mcp.MethodResourcesRead, mcp.MethodResourcesList, mcp.MethodResourceTemplates, mcp.MethodDiscover,
	mcp.MethodComplete, mcp.MethodListen, mcp.MethodTaskGet, mcp.MethodTaskUpdate, mcp.MethodTaskCancel,
	mcp.MethodResume, mcp.MethodStatus,
}

// Classes of statuses. The first is for clients that left before their answer.
var classes = [...]string{"gone", "1xx", "2xx", "3xx", "4xx", "5xx"}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		inFlight:           prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_http_requests_in_flight", Help: "HTTP requests being handled, streams included."}),
		streams:            prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_http_streams_open", Help: "Answers being streamed as server-sent events."}),
		connections:        prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_http_connections_open", Help: "Open client connections."}),
		connectionsRefused: prometheus.NewCounter(prometheus.CounterOpts{Name: "holdfast_http_connections_refused_total", Help: "Client connections refused at the limit."}),
		refusals:           map[adapter.Reason]prometheus.Counter{},
	}
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "holdfast_http_requests_total", Help: "HTTP requests by upstream, MCP method and class of the status.",
	}, []string{"upstream", "method", "status"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "holdfast_http_request_duration_seconds", Help: "Time from a request's last byte to its answer's, by upstream and MCP method.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
	}, []string{"upstream", "method"})
	refusals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "holdfast_http_errors_total", Help: "Errors of Holdfast's own by their reason.",
	}, []string{"reason"})
	reg.MustRegister(m.inFlight, m.streams, m.connections, m.connectionsRefused, requests, duration, refusals)
	for _, a := range downstream.Reasons() {
		m.refusals[a.Reason] = refusals.WithLabelValues(string(a.Reason))
	}
	m.requests, m.duration = requests, duration
	m.other = m.upstream("")
	return m
}

// upstream returns the metrics of an upstream, the same ones for each of its
// routes.
func (m *metrics) upstream(name string) *routeMetrics {
	r := &routeMetrics{}
	for i, method := range methods {
		for j, class := range classes {
			r.requests[i][j] = m.requests.WithLabelValues(name, method, class)
		}
		r.duration[i] = m.duration.WithLabelValues(name, method)
	}
	return r
}

func (r *routeMetrics) count(method, status int, took time.Duration) {
	class := status / 100
	if class >= len(classes) {
		class = 0
	}
	r.requests[method][class].Inc()
	r.duration[method].Observe(took.Seconds())
}

func methodIndex(method string) int {
	for i, known := range methods {
		if known == method {
			return i
		}
	}
	return 0
}
