package proxy

import (
	"bytes"
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/dialect"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/proxy/downstream"
)

// exchange is one HTTP request and its answer. It lives from the handler's
// start until its end, or until the end of its stream, on the goroutine of
// its connection, and is used again.
type exchange struct {
	s       *Server
	ctx     *fasthttp.RequestCtx
	started time.Time
	conn    *conn // nil for connections that no listener of ours accepted
	route   *route
	header  header
	msg     jsonrpc.Message
	req     adapter.Request
	dialect dialect.Dialect // of the request; nil until it is known

	id     []byte // raw id of the client's request, once it is known
	method int    // of methods
	status int    // 0 for a client that left
	round  downstream.Round
	watch  *watch

	// Of a stream: the notification that began it, or nil, and room for events.
	streaming bool
	keeps     bool // its client may lose it, and come back for what it was not told
	first     []byte
	event     []byte
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// maxKept bounds the memory that an exchange keeps from one use to the next.
const maxKept = 64 << 10

// handle is fasthttp's handler.
//
// Hot: once per request.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	x := exchanges.Get().(*exchange)
	x.s, x.ctx, x.started = s, ctx, ctx.Time()
	x.conn = connOf(ctx.Conn())
	s.metrics.inFlight.Inc()
	defer x.handled()
	if err := x.serve(); err != nil {
		x.refuse(err)
	}
}

// handled ends the handler, whether or not it panicked.
func (x *exchange) handled() {
	if p := recover(); p != nil {
		x.s.log.Error().Any("panic", p).Bytes("stack", debug.Stack()).Msg("request handler panicked")
		x.ctx.Response.Reset()
		x.refuse(downstream.Refuse(adapter.ReasonInternal, "Internal error"))
	}
	if !x.streaming {
		x.finish()
	}
}

// finish ends the exchange. Nothing of it is used afterwards.
func (x *exchange) finish() {
	s := x.s
	s.watcher.stop(x.watch)
	if x.round != nil {
		x.round.Close()
	}
	took := time.Since(x.started)
	metrics := s.metrics.other
	if x.route != nil {
		metrics = x.route.metrics
	}
	metrics.count(x.method, x.status, took)
	s.metrics.inFlight.Dec()
	if e := s.log.Debug(); e != nil {
		if named, ok := x.round.(interface{ CallID() [16]byte }); ok {
			if id := named.CallID(); id != [16]byte{} {
				e.Hex("call", id[:])
			}
		}
		if x.dialect != nil {
			e.Str("dialect", x.dialect.Name())
		}
		e.Str("method", methods[x.method]).Int("status", x.status).Bool("stream", x.streaming).Dur("took", took).Msg("request")
	}
	x.header.reset()
	*x = exchange{header: x.header, event: x.event[:0]}
	if cap(x.event) <= maxKept && cap(x.header.decoded) <= maxKept {
		exchanges.Put(x)
	}
}

// refuse answers with an error.
func (x *exchange) refuse(err error) {
	r := downstream.ReplyTo(err)
	x.note(&r)
	x.status = r.Status
	write(&x.ctx.Response, x.id, &r)
}

// note counts and logs an error that the client is told.
func (x *exchange) note(r *downstream.Reply) {
	if c, ok := x.s.metrics.refusals[r.Reason]; ok {
		c.Inc()
	}
	r.Log(&x.s.log, methods[x.method])
}

// serve checks where a request comes from and where it goes. An error is the
// answer.
func (x *exchange) serve() error {
	s, h := x.s, &x.ctx.Request.Header
	path := h.RequestURI()
	if i := bytes.IndexByte(path, '?'); i >= 0 {
		path = path[:i]
	}
	x.header.read(h.RawHeaders(), s.settings.PrincipalHeader)
	switch {
	// A target with a host in it would be believed more than Host.
	case len(path) == 0 || path[0] != '/':
		return downstream.Refuse(downstream.ReasonTarget, "The request target must be a path")
	case !s.hosts.admits(h.Host()):
		return downstream.Refuse(downstream.ReasonHost, "This Host is not served here")
	case x.header.origin.seen && !s.origins.admits(x.header.origin.value):
		return downstream.Refuse(downstream.ReasonOrigin, "This Origin may not call")
	}
	route, ok := s.routes[string(path)]
	if !ok {
		if suffix, ok := bytes.CutPrefix(path, []byte(wellKnown)); ok {
			return x.protectedResource(string(suffix))
		}
		x.text(fasthttp.StatusNotFound, "nothing is served at this path\n")
		return nil
	}
	x.route = route
	switch {
	case !h.IsPost():
		x.ctx.Response.Header.Set(fasthttp.HeaderAllow, fasthttp.MethodPost)
		return downstream.Refuse(downstream.ReasonHTTPMethod, "The MCP endpoint takes POST only")
	case !jsonType(x.header.contentType.value):
		return downstream.Refuse(downstream.ReasonContentType, "Content-Type must be application/json")
	case len(x.header.encoding) > 0 && !fold(x.header.encoding, "identity"):
		return downstream.Refuse(downstream.ReasonContentType, "The body must have no Content-Encoding")
	}
	return x.post()
}

// post reads the message and has it answered.
func (x *exchange) post() error {
	s, msg := x.s, &x.msg
	var err error
	*msg, x.id, err = downstream.Read(x.ctx.Request.Body(), s.settings.MaxDepth)
	x.method = methodIndex(msg.Method)
	switch {
	case x.header.repeated != "":
		return downstream.Refuse(downstream.ReasonHeader, "The request has "+x.header.repeated+" twice")
	case x.header.folded:
		return downstream.Refuse(downstream.ReasonHeader, "A header is continued on a second line")
	case downstream.IsResponse(err):
		return x.unanswered(err)
	case err != nil:
		return err
	case msg.Method == mcp.NotifyCancelled:
		return x.unanswered(nil)
	case msg.IsNotification():
		x.accepted()
		return nil
	case !x.header.accept.admits():
		return downstream.Refuse(downstream.ReasonAccept, "Accept must admit application/json and text/event-stream")
	}
	if err := x.decode(); err != nil {
		return err
	}
	x.keeps = x.req.Away > 0 || x.req.Method == mcp.MethodResume
	if (msg.Method == mcp.MethodListen || x.keeps) && !x.ctx.Request.Header.IsHTTP11() {
		return downstream.Refuse(downstream.ReasonHTTPVersion, msg.Method+" needs HTTP/1.1 or later")
	}
	// A pipelined request is run although its client may have left long since.
	if x.conn != nil && x.conn.pipelined() && hungUp(x.conn.fd) {
		x.gone()
		return nil
	}
	if err := x.begin(); err != nil {
		return err
	}
	return x.follow()
}

// unanswered serves a message that gets no JSON-RPC answer: one of a dialect, or
// one that is refused, or left alone where that is nil. Real clients post
// notifications/cancelled, which this transport has no use for else: acting on its
// id could cancel another client's call.
func (x *exchange) unanswered(refusal error) (err error) {
	x.dialect, err = x.s.settings.Dialects.DecodeUnanswered(&x.msg, &x.req)
	switch {
	case err != nil:
		return err
	case x.dialect == nil && refusal != nil:
		return refusal
	case x.dialect == nil:
		x.accepted()
		return nil
	}
	if err := x.begin(); err != nil {
		return err
	}
	for {
		event, err := x.round.Next(time.Now().Add(x.s.settings.KeepAlive))
		switch {
		case errors.Is(err, adapter.ErrDeadline):
		case errors.Is(err, adapter.ErrGone):
			x.gone()
			return nil
		case err != nil:
			return err
		case event.Outcome != nil:
			x.accepted()
			return nil
		}
	}
}

func (x *exchange) accepted() {
	x.status = fasthttp.StatusAccepted
	x.ctx.Response.SetStatusCode(x.status)
}

// begin begins the round.
func (x *exchange) begin() error {
	x.req.Upstream = x.route.Upstream
	x.req.PrincipalHeader = string(x.header.principal.value)
	x.req.Credentials.Authorization = string(x.header.authorization.value)
	switch {
	case x.header.traced:
		x.req.Credentials.Forward = forward(x.ctx.Request.Header.RawHeaders(), x.route.traced)
	case len(x.route.Forward) > 0:
		x.req.Credentials.Forward = forward(x.ctx.Request.Header.RawHeaders(), x.route.Forward)
	}
	round, err := x.s.engine.Begin(&x.req)
	if err != nil {
		return err
	}
	x.round = round
	return nil
}

// decode reads the request in its dialect, and holds the headers against it.
func (x *exchange) decode() (err error) {
	x.dialect, err = x.s.settings.Dialects.Decode(&x.msg, x.header.dialect.value, x.route.dialect, &x.req)
	if x.dialect == nil {
		return err
	}
	x.req.Headers = &x.header
	if x.dialect.Modern() {
		return x.header.mirrors(&x.msg, &x.req, err)
	}
	if err != nil {
		return err
	}
	x.method = methodIndex(x.req.Method)
	if len(x.header.params) == 0 {
		x.req.Headers = nil
	}
	return x.header.mirrorsGiven(&x.msg, &x.req)
}

// follow waits for the round's first event and lets it decide the form of the
// answer: plain JSON when it is the outcome, a stream otherwise.
func (x *exchange) follow() error {
	streams := x.ctx.Request.Header.IsHTTP11() // HTTP/1.0 has no chunks to stream in
	streamAt := x.started.Add(x.s.settings.StreamAfter)
	until := x.started.Add(watchAfter)
	if streams && until.After(streamAt) {
		until = streamAt
	}
	for {
		event, err := x.round.Next(until)
		switch {
		case errors.Is(err, adapter.ErrDeadline):
			x.register()
			if now := time.Now(); !streams {
				until = now.Add(x.s.settings.KeepAlive)
			} else if until = streamAt; !now.Before(streamAt) {
				x.stream(nil)
				return nil
			}
		case errors.Is(err, adapter.ErrGone):
			x.gone()
			return nil
		case errors.Is(err, adapter.ErrEnded):
			x.streamStatus()
			return nil
		case err != nil:
			return err
		case event.Outcome != nil:
			x.plain(event.Outcome)
			return nil
		case streams:
			x.stream(x.notification(event))
			return nil
		}
	}
}

// register has the connection watched from now on.
func (x *exchange) register() {
	if x.watch == nil && x.conn != nil {
		x.watch = x.s.watcher.add(x.conn.fd, x.round)
	}
}

// plain answers with one JSON body.
func (x *exchange) plain(o *adapter.Outcome) {
	resp := &x.ctx.Response
	downstream.Explain(o)
	x.status = statusOfOutcome(o)
	resp.SetStatusCode(x.status)
	resp.Header.SetContentTypeBytes(jsonMedia)
	resp.SwapBody(x.dialect.AppendOutcome(resp.SwapBody(nil)[:0], x.id, o))
}

// notification is what an event has the client notified of.
func (x *exchange) notification(event adapter.Event) []byte {
	if event.Standing == nil {
		return event.Notification
	}
	downstream.Explain(event.Standing)
	if d, ok := x.dialect.(dialect.Watching); ok {
		return d.AppendStanding(nil, x.id, event.Standing)
	}
	return nil
}

// statusGone is nginx's "client closed request".
const statusGone = 499

// gone ends an exchange whose client has closed its connection.
func (x *exchange) gone() {
	x.status = 0
	x.ctx.SetStatusCode(statusGone) // which only a half-closed client sees
	x.ctx.SetConnectionClose()
}

func (x *exchange) text(status int, body string) {
	x.status = status
	x.ctx.Response.SetStatusCode(status)
	x.ctx.Response.Header.SetContentType("text/plain; charset=utf-8")
	x.ctx.Response.SetBodyString(body)
}

// Metadata of RFC 9728, which tells clients where to get a token. It is the
// upstream's, because the upstream is what they need one for.
const (
	wellKnown        = "/.well-known/oauth-protected-resource"
	wellKnownTimeout = 10 * time.Second
)

func (x *exchange) protectedResource(suffix string) error {
	s := x.s
	route, ok := s.routes[suffix]
	if suffix == "" || suffix == "/" {
		route, ok = s.only, s.only != nil
		suffix = ""
	}
	if !ok {
		x.text(fasthttp.StatusNotFound, "nothing is served at this path\n")
		return nil
	}
	x.route = route
	if !x.ctx.IsGet() {
		x.ctx.Response.Header.Set(fasthttp.HeaderAllow, fasthttp.MethodGet)
		x.text(fasthttp.StatusMethodNotAllowed, "GET only\n")
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), wellKnownTimeout)
	defer cancel()
	status, contentType, body, err := s.engine.ProtectedResource(ctx, route.Upstream, strings.Clone(suffix))
	if err != nil {
		s.log.Warn().Err(err).Str("upstream", route.Upstream).Msg("protected resource metadata")
		x.text(fasthttp.StatusBadGateway, "the server did not answer\n")
		return nil
	}
	x.status = status
	x.ctx.Response.SetStatusCode(status)
	x.ctx.Response.Header.SetContentType(contentType)
	x.ctx.Response.SetBody(body)
	return nil
}
