package proxy

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
	"github.com/valyala/fasthttp/pprofhandler"
)

// Admin is the server for those who run Holdfast: /healthz, /readyz, /replicas
// and /metrics, and /debug/pprof/ where profiling is on. It has no
// authentication: its listener must be out of clients' reach.
type Admin struct {
	ready    func(context.Context) (bool, []string)
	replicas func() any
	metrics  fasthttp.RequestHandler
	profiles bool
	http     *fasthttp.Server
}

// readyTimeout bounds the checks behind /readyz.
const readyTimeout = 5 * time.Second

// NewAdmin makes an admin server. ready is Server.Ready; replicas returns what
// /replicas answers as JSON; profiling says whether profiles are served.
func NewAdmin(ready func(context.Context) (bool, []string), replicas func() any, profiling bool, gatherer prometheus.Gatherer, log zerolog.Logger) *Admin {
	a := &Admin{
		ready:    ready,
		replicas: replicas,
		profiles: profiling,
		metrics:  fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{})),
	}
	a.http = &fasthttp.Server{
		Handler: a.handle, Logger: printer{log},
		ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		GetOnly: true, ReduceMemoryUsage: true, SecureErrorLogMessage: true, NoDefaultServerHeader: true, CloseOnShutdown: true,
	}
	if profiling {
		a.http.WriteTimeout = profileTime
	}
	return a
}

// profileTime bounds how long a profile may take.
const profileTime = 5 * time.Minute

// Serve accepts connections until Shutdown, and then returns nil.
func (a *Admin) Serve(ln net.Listener) error { return a.http.Serve(ln) }

// Shutdown waits for running requests until ctx ends.
func (a *Admin) Shutdown(ctx context.Context) error { return a.http.ShutdownWithContext(ctx) }

func (a *Admin) handle(ctx *fasthttp.RequestCtx) {
	switch path := string(ctx.Path()); path {
	case "/healthz":
		ctx.SetContentType("text/plain; charset=utf-8")
		ctx.SetBodyString("ok\n")
	case "/readyz":
		a.readyz(ctx)
	case "/replicas":
		answerJSON(ctx, a.replicas())
	case "/metrics":
		a.metrics(ctx)
	default:
		// The command line may hold a secret.
		if a.profiles && strings.HasPrefix(path, "/debug/pprof/") && path != "/debug/pprof/cmdline" {
			pprofhandler.PprofHandler(ctx)
			return
		}
		ctx.Error("not found: /healthz, /readyz, /replicas and /metrics are here\n", fasthttp.StatusNotFound)
	}
}

func (a *Admin) readyz(ctx *fasthttp.RequestCtx) {
	limited, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	ok, reasons := a.ready(limited)
	state := struct {
		Status  string   `json:"status"`
		Reasons []string `json:"reasons"`
	}{"ready", reasons}
	switch {
	case !ok:
		state.Status = "not ready"
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
	case len(reasons) > 0:
		state.Status = "degraded"
	}
	if reasons == nil {
		state.Reasons = []string{}
	}
	answerJSON(ctx, state)
}

func answerJSON(ctx *fasthttp.RequestCtx, value any) {
	body, err := json.Marshal(value)
	if err != nil { // texts and numbers always marshal
		ctx.SetStatusCode(fasthttp.StatusInternalServerError)
		return
	}
	ctx.Response.Header.SetContentTypeBytes(jsonMedia)
	ctx.SetBody(append(body, '\n'))
}
