package adapter

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// Round is one request of a client. One goroutine calls Next until it returns
// an outcome or an error, then Close; Gone may be called from any other.
type Round interface {
	// Next returns what the client is to be told next. It returns ErrDeadline
	// when there is nothing by until, and ErrGone after Gone. Any other error ends
	// the round.
	Next(until time.Time) (Event, error)
	// Gone says that the client closed its connection. The last round that
	// waits at a running call cancels it.
	Gone()
	// Close ends the use of the round and of its Request.
	Close()
	// Served says how the round is being served; it may change until Close.
	Served() Served
	// CallID names the call in logs, the same on every replica; zero: it has not
	// parked.
	CallID() [16]byte
}

// Engine carries calls. Its methods are safe for concurrent use.
type Engine struct {
	settings  Settings
	ring      *state.Ring
	log       zerolog.Logger
	noisy     zerolog.Logger                       // for what another replica can cause at will: a few lines in a while
	groups    map[string]*group                    // by the upstream's name
	endpoints atomic.Pointer[map[string]*upstream] // each, by its PeersName; the map never changes
	caps      capabilityCache
	schemas   schemaCache
	calls     registry
	metrics   *metrics

	ctx      context.Context // ends when Shutdown gives up waiting
	cancel   context.CancelFunc
	leaving  atomic.Bool   // no longer ready
	draining atomic.Bool   // takes nothing new
	deserted atomic.Bool   // and has no client's round in progress
	letting  atomic.Bool   // lets calls go
	letAt    atomic.Int64  // since when, in Unix nanoseconds
	cutAt    atomic.Int64  // when Shutdown's time is over, in Unix nanoseconds; zero: not known
	cutting  atomic.Bool   // lets no round wait any longer for another replica
	doubt    chan struct{} // has room for one: the lease had run out
	recopy   atomic.Bool   // an outcome was copied to a replica that has died
	copying  sync.Mutex    // held while outcomes are copied anew
	verified atomic.Uint64 // lapses of the lease after which the calls were verified
	strange  atomic.Int64  // when a request state of an unknown key last came, in Unix nanoseconds; zero: never
	rounds   atomic.Int64  // in progress
	remote   atomic.Int64  // of them, those whose clients are at other replicas
	watches  atomic.Int64  // of them, or about to be, those that watch for listeners, here or elsewhere
	others   acquaintance
	watching watching
	quiet    chan struct{} // has room for one: no round is left, while draining
	company  chan struct{} // has room for one: the set of live replicas changed

	mu        sync.Mutex
	listeners map[listener]struct{}
	listening map[principal]int
	parts     int                      // of the listeners, those that are on the books with the one that they are part of
	routes    map[*routeRound]struct{} // that pass through, or look for an endpoint
	guests    guests
	wg        sync.WaitGroup // goroutines of calls and listeners

	housekeeping sync.WaitGroup
}

// NewEngine makes an Engine. The ring stays the caller's, the servers are
// closed by Shutdown.
func NewEngine(settings Settings, upstreams []Upstream, ring *state.Ring, log zerolog.Logger, m *Metrics) *Engine {
	e := &Engine{
		settings: settings, ring: ring, log: log,
		noisy:  log.Sample(&zerolog.BurstSampler{Burst: 5, Period: 10 * time.Second}),
		groups: make(map[string]*group), routes: make(map[*routeRound]struct{}), quiet: make(chan struct{}, 1), company: make(chan struct{}, 1), doubt: make(chan struct{}, 1), others: acquaintance{met: make(chan struct{}, 1)},
		listeners: make(map[listener]struct{}), listening: make(map[principal]int), guests: make(guests),
	}
	e.calls.init(settings)
	for i := range upstreams {
		g := newGroup(&upstreams[i])
		e.groups[g.name] = g
	}
	e.index()
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.metrics = m.bind(e)
	if settings.Bus != nil {
		e.verified.Store(settings.Bus.Lapses())
	}
	e.housekeeping.Add(2)
	go func() {
		defer e.housekeeping.Done()
		e.guard()
	}()
	go func() {
		defer e.housekeeping.Done()
		e.expire()
	}()
	return e
}

// Begin starts a round. It does not block. An error is a *Refusal or a
// *jsonrpc.Error.
//
// Hot: once per request.
func (e *Engine) Begin(req *Request) (Round, error) {
	g := e.groups[req.Upstream]
	if g == nil {
		return nil, refuse(ReasonInternal, "no upstream of this name")
	}
	if e.draining.Load() {
		return nil, stopping()
	}
	caps, err := e.caps.get(req.Capabilities)
	if err != nil {
		return nil, &Refusal{Reason: ReasonInvalidParams, Detail: err.Error()}
	}
	if g.only == nil || g.only.known() != legacy.EraLegacy {
		return e.beginRoute(g, req, caps)
	}
	return e.beginLegacy(g.only, req, caps, false)
}

// beginLegacy starts a round that a legacy server serves. arrived says that it is
// one of those already that a replica that stops still serves.
func (e *Engine) beginLegacy(up *upstream, req *Request, caps *mcp.Capabilities, arrived bool) (Round, error) {
	if req.PassOnly != nil {
		return nil, req.PassOnly
	}
	if req.RequestState == nil && up.through(e) {
		return e.beginThrough(up, req, caps, arrived)
	}
	if req.Method == mcp.MethodListen {
		return e.beginHere(up, req, caps)
	}
	if arrived {
		e.rounds.Add(1)
	} else if err := e.arrive(); err != nil {
		return nil, err
	}
	if req.RequestState != nil {
		r, err := e.resume(up, req, caps)
		if byHandle(req.Method) {
			return e.orLost(req, r, err)
		}
		if err != nil {
			e.metrics.round(ServedRefused, time.Time{})
			return nil, err
		}
		return r, nil
	}
	r, err := e.beginHere(up, req, caps)
	if err != nil {
		e.leave()
		return nil, err
	}
	return r, nil
}

// beginHere starts a first round, which has arrived already, or a listener.
func (e *Engine) beginHere(up *upstream, req *Request, caps *mcp.Capabilities) (Round, error) {
	if req.Method == mcp.MethodListen {
		l, err := e.beginListen(up, req, caps)
		if err != nil {
			return nil, err
		}
		return l, nil
	}
	r := e.newRound(req)
	if err := e.start(up, req, caps, r); err != nil {
		return nil, err
	}
	return r, nil
}

func (e *Engine) newRound(req *Request) *callRound {
	r := &callRound{req: req, progress: req.ProgressToken, level: req.LogLevel}
	if req.RequestState != nil {
		r.began = time.Now()
	}
	hold := e.settings.MaxHold
	if req.Hold > 0 && (hold == 0 || req.Hold < hold) {
		hold = req.Hold
	}
	if hold > 0 {
		r.hold = time.Now().Add(hold)
	}
	switch {
	case req.followable():
		r.follows, r.lastAt = true, time.Now().Add(handleSoon)
	case req.Lasting > 0 && req.Method == mcp.MethodToolsCall:
		r.lastAt = time.Now().Add(req.LastingAfter)
	}
	return r
}

// arrive is enter for a round that comes from outside, which a replica that
// stops refuses.
func (e *Engine) arrive() error {
	if err := e.enter(); err != nil {
		return err
	}
	if e.draining.Load() { // it may have begun since: Shutdown waits for the rounds that it sees
		e.leave()
		return stopping()
	}
	return nil
}

// enter counts a round, which leave undoes. Those that watch have no part in the
// limit: listeners and lasting calls have limits of their own.
func (e *Engine) enter() error {
	if n := e.rounds.Add(1); n-e.watches.Load() > int64(e.settings.MaxCalls) {
		e.leave()
		return &Refusal{Reason: ReasonOverload, Detail: "too many calls are in flight (calls.max)", RetryAfter: time.Second}
	}
	return nil
}

// strangeFor is how long a replica is degraded after a request state of an
// unknown key.
const strangeFor = 5 * time.Minute

func stopping() error {
	return &Refusal{Reason: ReasonShutdown, Detail: "this replica is stopping; send the request again", RetryAfter: time.Second}
}

// leave ends a round's counting, and tells Shutdown of the last one.
func (e *Engine) leave() {
	if e.rounds.Add(-1) == 0 && e.draining.Load() {
		select {
		case e.quiet <- struct{}{}:
		default:
		}
	}
}

// rest returns once no round is in progress, or ctx ends; or, which it reports,
// there is something from changed. Draining has begun.
func (e *Engine) rest(ctx context.Context, changed <-chan struct{}) (interrupted bool) {
	for e.rounds.Load() > 0 {
		select {
		case <-e.quiet:
		case <-changed:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return false
}

// key says which session a request may use.
func (e *Engine) key(req *Request, caps *mcp.Capabilities) legacy.Key {
	k := legacy.Key{Caps: caps, ClientInfo: req.ClientInfo}
	var named bool
	k.Principal, named = principalOf(req)
	anonymous := e.settings.Anonymous
	switch {
	case e.settings.Scope == ScopeCall || !named && anonymous == AnonymousCall:
		id := newCallID()
		k.Extra, k.Ephemeral = id[:], true
	case e.settings.Scope == ScopeShared:
		k.Caller, k.Principal, k.Shared = k.Principal, principal{}, true
	case !named && anonymous == AnonymousClientInfo:
		k.Extra = req.ClientInfo
	}
	return k
}

// Ready reports whether at least one upstream can be reached, and why the
// others cannot.
func (e *Engine) Ready(ctx context.Context) (ready bool, reasons []string) {
	if e.leaving.Load() {
		return false, []string{"shutting down"}
	}
	type answer struct {
		up  *upstream
		err error
	}
	all := e.upstreams()
	answers := make(chan answer, len(all))
	for _, u := range all {
		go func() { answers <- answer{u, u.Server.Reachable(ctx)} }() // ends with ctx; the channel has room
	}
	reached := make(map[*group]bool)
	why := make(map[*group]error)
	for range all {
		a := <-answers
		if a.err == nil {
			ready, reached[a.up.group] = true, true
			continue
		}
		why[a.up.group] = a.err
		e.log.Debug().Err(a.err).Str("upstream", a.up.Name).Msg("readiness check")
	}
	for name, g := range e.groups {
		if !reached[g] {
			reasons = append(reasons, unreachable(name, why[g]))
		}
	}
	if e.settings.Bus != nil {
		if reached, why := e.settings.Bus.Status(); !reached {
			reasons = append(reasons, "bus: "+why)
			ready = ready && !e.settings.BusRequired
		}
	}
	if at := e.strange.Load(); at != 0 && time.Since(time.Unix(0, at)) < strangeFor {
		reasons = append(reasons, "request states come in that were sealed with a key that this replica does not have (state.keys, state.key_file)")
	}
	return ready, reasons
}

// unreachable says why an upstream cannot be reached, on one line: of a command that
// keeps ending, also what the last one has said.
func unreachable(name string, why error) string {
	reason := "upstream " + name + " cannot be reached"
	if why == nil {
		return reason
	}
	text := strings.TrimPrefix(why.Error(), legacy.ErrUnreachable.Error()+": ")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if cut := len(text) - maxWhy; cut > 0 { // both ends say most
		text = strings.ToValidUTF8(text[:maxWhy/4], "") + " [...] " + strings.ToValidUTF8(text[cut+maxWhy/4:], "")
	}
	return reason + ": " + text
}

// maxWhy bounds what a reason of Ready says of an upstream.
const maxWhy = 1 << 10

// asRefusal names an error of a session for the client.
func asRefusal(err error, mayHaveRun bool) error {
	var status *legacy.StatusError
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &status):
		if status.Unauthorized() {
			return &Unauthorized{Status: status.Status, Authenticate: status.Authenticate, Body: status.Body, ContentType: status.ContentType}
		}
		return &Refusal{Reason: ReasonUpstreamStatus, Detail: "the server answered with an HTTP status that is no answer to a request", Err: err, MayHaveRun: mayHaveRun && (status.Status >= 500 || status.Status < 300)}
	case errors.Is(err, legacy.ErrFull):
		return &Refusal{Reason: ReasonOverload, Detail: err.Error() + "; try again", RetryAfter: 2 * time.Second, Err: err}
	case errors.Is(err, legacy.ErrUnreachable):
		return &Refusal{Reason: ReasonUpstreamDown, Detail: "the server cannot be reached", RetryAfter: 2 * time.Second, Err: err}
	case errors.Is(err, legacy.ErrMalformed):
		return &Refusal{Reason: ReasonUpstreamReply, Detail: "the server's answer is not legal, or too large", Err: err, MayHaveRun: mayHaveRun}
	case errors.Is(err, legacy.ErrSessionGone):
		return &Refusal{Reason: ReasonUpstreamLost, Detail: "the server no longer knows the session that the call ran on", Err: err, MayHaveRun: mayHaveRun}
	case errors.Is(err, legacy.ErrBroken):
		return &Refusal{Reason: ReasonUpstreamLost, Detail: "the connection to the server was lost before its answer", Err: err, MayHaveRun: mayHaveRun}
	case errors.Is(err, legacy.ErrClosed), errors.Is(err, context.Canceled):
		return &Refusal{Reason: ReasonShutdown, Detail: "this replica is stopping; send the request again", RetryAfter: time.Second, Err: err, MayHaveRun: mayHaveRun}
	case errors.Is(err, context.DeadlineExceeded):
		return &Refusal{Reason: ReasonUpstreamDown, Detail: "the server did not answer the handshake in time", RetryAfter: 2 * time.Second, Err: err, MayHaveRun: mayHaveRun}
	}
	return &Refusal{Reason: ReasonUpstreamDown, Detail: "no session with the server", Err: err, MayHaveRun: mayHaveRun}
}

// ProtectedResource passes an upstream's OAuth 2.0 Protected Resource Metadata
// on (RFC 9728). suffix is what the client's path has behind the well-known
// one: empty for the root document.
func (e *Engine) ProtectedResource(ctx context.Context, upstream, suffix string) (status int, contentType string, body []byte, err error) {
	g := e.groups[upstream]
	if g == nil {
		return 0, "", nil, refuse(ReasonInternal, "no upstream of this name")
	}
	for _, up := range g.list() {
		if status, contentType, body, err = up.Server.ProtectedResource(ctx, suffix != ""); err == nil {
			return status, contentType, body, nil
		}
	}
	err = asRefusal(err, false)
	return status, contentType, body, err
}
