package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/dialect"
	"github.com/holdfast-mcp/holdfast/proxy/downstream"
)

// Server is the endpoint that clients call. New makes one that runs; it must
// be shut down even if it never served.
type Server struct {
	settings Settings
	engine   downstream.Engine
	log      zerolog.Logger
	metrics  *metrics
	routes   map[string]*route
	only     *route // the route of the only upstream there is, or nil
	hosts    places
	origins  places
	watcher  *watcher
	doors    *doors
	http     *fasthttp.Server

	listening atomic.Bool
	stopping  sync.Once
}

type route struct {
	Route
	traced  []string        // Forward, and the fields of a trace
	dialect *dialect.Spoken // nil for MRTR
	metrics *routeMetrics
}

// ErrStopped is what Serve returns after Shutdown.
var ErrStopped = errors.New("server is stopped")

// New makes a server. It registers its metrics, and panics if they are
// registered there already.
func New(settings Settings, engine downstream.Engine, log zerolog.Logger, reg prometheus.Registerer) *Server {
	hosts, origins := settings.places()
	s := &Server{
		settings: settings,
		engine:   engine,
		log:      log,
		metrics:  newMetrics(reg),
		routes:   map[string]*route{},
		hosts:    newPlaces(hosts, true),
		origins:  newPlaces(origins, false),
		watcher:  newWatcher(),
	}
	upstreams := map[string]struct{}{}
	for _, r := range settings.Routes {
		spoken, _ := settings.Dialects.Find(r.Dialect)
		s.only = &route{Route: r, traced: withTrace(r.Forward), dialect: spoken, metrics: s.metrics.upstream(r.Upstream)}
		s.routes[r.Path] = s.only
		upstreams[r.Upstream] = struct{}{}
	}
	if len(upstreams) != 1 {
		s.only = nil
	}
	s.doors = &doors{
		limit: settings.MaxConnections, plain: settings.TLS == nil,
		read: settings.ReadTimeout, idle: settings.IdleTimeout, write: settings.WriteTimeout,
		metrics: s.metrics, closing: make(chan struct{}), conns: map[*conn]struct{}{},
	}
	s.http = &fasthttp.Server{ // its connections keep their own times
		Handler:      s.handle,
		ErrorHandler: s.malformed,
		Logger:       printer{log},

		Concurrency:        math.MaxInt32, // ours comes first
		ReadBufferSize:     settings.MaxHeader,
		MaxRequestBodySize: settings.MaxBody,

		ReduceMemoryUsage:            true,
		SecureErrorLogMessage:        true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		DisablePreParseMultipartForm: true,
		CloseOnShutdown:              true,
	}
	if settings.TLS != nil { // below TLS, a read is no request
		s.http.ReadTimeout, s.http.IdleTimeout = settings.ReadTimeout, settings.IdleTimeout
	}
	return s
}

// withTrace adds the fields of a trace to the names of header fields.
func withTrace(names []string) []string {
	all := slices.Clone(names)
	for _, field := range traceFields {
		if !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, field) }) {
			all = append(all, field)
		}
	}
	return all
}

// Serve accepts connections until Shutdown, and then returns nil. It owns ln.
// It may be called with several listeners at once.
func (s *Server) Serve(ln net.Listener) error {
	select {
	case <-s.doors.closing:
		_ = ln.Close()
		return ErrStopped
	default:
	}
	ln = &listener{Listener: ln, doors: s.doors}
	if s.settings.TLS != nil {
		ln = tls.NewListener(ln, s.settings.TLS)
	}
	s.listening.Store(true)
	if err := s.http.Serve(ln); err != nil {
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// Ready says whether the server listens and its engine could serve a call,
// and what is amiss.
func (s *Server) Ready(ctx context.Context) (bool, []string) {
	select {
	case <-s.doors.closing:
		return false, []string{"shutting down"}
	default:
	}
	if !s.listening.Load() {
		return false, []string{"not listening yet"}
	}
	return s.engine.Ready(ctx)
}

// forced is how long Shutdown waits for requests after it has cut their
// connections.
const forced = 2 * time.Second

// Shutdown stops accepting and waits for running requests to end, streams
// among them: the engine, shut down before, gives those their last message.
// When ctx ends first, the rest is cut off, and the error says so.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopping.Do(func() { close(s.doors.closing) })
	wait, stopWaiting := context.WithCancel(context.Background())
	defer stopWaiting()
	stopped := make(chan error, 1)
	go func() { stopped <- s.http.ShutdownWithContext(wait) }()
	select {
	case err := <-stopped:
		s.watcher.close()
		return err
	case <-ctx.Done():
	}
	s.watcher.close()
	s.doors.closeAll()
	select {
	case <-stopped:
	case <-time.After(forced):
		stopWaiting()
		<-stopped
	}
	return fmt.Errorf("requests cut off: %w", ctx.Err())
}

// malformed answers what fasthttp could not read as a request. Nothing of it
// is repeated, because it may be secret.
func (s *Server) malformed(ctx *fasthttp.RequestCtx, err error) {
	var small *fasthttp.ErrSmallBuffer
	var network net.Error
	refusal := downstream.Refuse(downstream.ReasonBadHTTP, "This is no valid HTTP request")
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		refusal = downstream.Refuse(downstream.ReasonBodySize, fmt.Sprintf("The body is larger than %d bytes", s.settings.MaxBody))
	case errors.As(err, &small):
		refusal = downstream.Refuse(downstream.ReasonHeaderSize, fmt.Sprintf("The header is larger than %d bytes", s.settings.MaxHeader))
	case errors.As(err, &network) && network.Timeout():
		refusal = downstream.Refuse(downstream.ReasonSlowRequest, "The request did not arrive in time")
	}
	if c := connOf(ctx.Conn()); c != nil {
		c.linger.Store(true)
	}
	r := downstream.ReplyToRefusal(refusal)
	ctx.Response.Reset()
	write(&ctx.Response, nil, &r)
	s.metrics.refusals[refusal.Reason].Inc()
	s.metrics.other.count(0, r.Status, 0)
}

// printer takes fasthttp's own log lines: lost connections, most of all.
type printer struct{ log zerolog.Logger }

func (p printer) Printf(format string, args ...any) {
	if e := p.log.Debug(); e != nil {
		e.Str("from", "fasthttp").Msgf(format, args...)
	}
}

var (
	_ adapter.ParamChecker  = (*header)(nil)
	_ fasthttp.BodyWriterTo = (*exchange)(nil)
)
