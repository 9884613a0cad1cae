package adapter

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// listenRound is a subscriptions/listen request. Upstream it is the session's
// GET stream and the resources that it has subscribed to; it outlives the
// session, because the client's stream knows nothing of one.
type listenRound struct {
	engine *Engine
	up     *upstream
	key    legacy.Key
	creds  legacy.Credentials
	id     []byte // raw JSON-RPC id: the subscription id
	part   bool   // of a fanRound
	want   filter
	calls  watched // that last, and that it hears of

	ctx    context.Context // ends with the round
	cancel context.CancelFunc
	done   chan struct{} // closed when run has ended

	mu      sync.Mutex
	serves  filter
	queue   queue
	outcome *Outcome
	err     error
	gone    bool
	acked   bool
	ended   chan struct{} // closed when the session has ended; made anew for each
	wake    chan struct{}
}

func (e *Engine) beginListen(up *upstream, req *Request, caps *mcp.Capabilities) (*listenRound, error) {
	want, err := parseFilter(req.Params, e.settings.MaxURIs)
	if err != nil {
		return nil, err
	}
	l := &listenRound{
		engine: e, up: up, key: e.key(req, caps), creds: credentials(req), id: bytes.Clone(req.ID), part: req.part, want: want,
		done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	l.key.ClientInfo, l.key.Extra = bytes.Clone(l.key.ClientInfo), bytes.Clone(l.key.Extra)
	l.want.handles = l.calls.choose(e, up, req, caps, want.handles)
	if err := e.admit(l, caller(&l.key)); err != nil {
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(e.ctx)
	go l.run()
	return l, nil
}

// listener is a round that lasts until its client goes, or this replica ends it.
type listener interface {
	finish()
	within() bool // it is part of another, which counts
}

// admit puts a listener on the books, which dismiss undoes, and its goroutines on
// the engine's where it has some: Shutdown waits for them.
func (e *Engine) admit(l listener, of principal) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.draining.Load(): // Shutdown has ended the listeners that there were
		return stopping()
	case l.within():
	case len(e.listeners)-e.parts >= e.settings.MaxListeners:
		return &Refusal{Reason: ReasonOverload, Detail: "too many listeners (listeners.max)", RetryAfter: 10 * time.Second}
	case e.listening[of] >= e.settings.MaxListenersPerPrincipal:
		return &Refusal{Reason: ReasonQuota, Detail: "too many listeners of this caller (listeners.max_per_principal)", RetryAfter: 10 * time.Second}
	}
	e.listeners[l] = struct{}{}
	if l.within() {
		e.parts++
	} else {
		e.listening[of]++
	}
	switch l := l.(type) {
	case *listenRound:
		e.wg.Add(1)
	case *fanRound:
		e.wg.Add(len(l.arms))
	}
	return nil
}

// dismiss takes a listener off the books.
func (e *Engine) dismiss(l listener, of principal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.listeners, l)
	if l.within() {
		e.parts--
		return
	}
	if e.listening[of]--; e.listening[of] <= 0 {
		delete(e.listening, of)
	}
}

// run keeps the listener on a session until the round ends.
func (l *listenRound) run() {
	defer l.engine.wg.Done()
	defer close(l.done)
	defer l.calls.follow(l)()
	pause := time.Duration(0)
	for l.ctx.Err() == nil {
		err := l.attend()
		if l.ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		acked := l.acked
		l.mu.Unlock()
		if !acked { // the client has been told nothing yet: it can be told the error
			l.end(nil, asRefusal(err, false))
			return
		}
		l.engine.log.Debug().Err(err).Str("upstream", l.up.Name).Msg("listener lost its session")
		pause = min(max(2*pause, 100*time.Millisecond), 10*time.Second)
		wait.For(l.ctx.Done(), time.Now().Add(pause))
	}
}

// attend serves the listener on one session until that ends.
func (l *listenRound) attend() error {
	s, err := l.up.Server.Acquire(l.ctx, &l.key, false, l.creds)
	if err != nil {
		return err
	}
	serves := l.want.honoured(s.Info())
	ended := make(chan struct{})
	l.mu.Lock()
	l.ended = ended
	l.mu.Unlock()
	if !s.Listen(l) {
		s.Return(false)
		return legacy.ErrSessionGone
	}
	defer s.Unlisten(l)
	var subscribed []string
	for _, uri := range serves.uris {
		if err := s.Subscribe(l.ctx, l.creds, l, uri); err != nil {
			l.engine.log.Debug().Err(err).Str("upstream", l.up.Name).Msg("resource not subscribed")
			continue // not honoured: the acknowledgement says so
		}
		subscribed = append(subscribed, uri)
	}
	serves.uris = subscribed
	defer func() {
		// The round may be over, but the server must know.
		ctx, cancel := context.WithTimeout(l.engine.ctx, unsubscribeTime)
		defer cancel()
		for _, uri := range subscribed { // each, whatever the server says of another
			if err := s.Unsubscribe(ctx, l.creds, l, uri); err != nil {
				l.engine.log.Debug().Err(err).Str("upstream", l.up.Name).Msg("resource not unsubscribed")
			}
		}
	}()
	l.acknowledge(serves)
	select {
	case <-ended:
		return legacy.ErrSessionGone
	case <-l.ctx.Done():
		return nil
	}
}

// unsubscribeTime bounds the clean-up of a listener.
const unsubscribeTime = 5 * time.Second

// acknowledge tells the client what is served, first of all. On a new session
// it tells of everything instead: what changed in between was not seen.
func (l *listenRound) acknowledge(serves filter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serves = serves
	if !l.acked {
		l.acked = true
		n := append([]byte(nil), `{"jsonrpc":"2.0","method":"`+mcp.NotifyAcknowledged+`","params":{"_meta":{"`+mcp.MetaSubscriptionID+`":`...)
		n = append(append(n, l.id...), `},"notifications":`...)
		l.tell(append(serves.append(n), "}}"...))
		return
	}
	l.tellAll()
}

// Missed implements legacy.Listener.
func (l *listenRound) Missed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acked {
		l.tellAll()
	}
}

// tellAll tells of everything that is listened to: it may have changed unseen.
// mu is held.
func (l *listenRound) tellAll() {
	serves := l.serves
	for _, n := range []struct {
		method string
		on     bool
	}{{mcp.NotifyToolsChanged, serves.tools}, {mcp.NotifyPromptsChanged, serves.prompts}, {mcp.NotifyResourcesChanged, serves.resources}} {
		if n.on {
			l.tell(l.notification(n.method, nil))
		}
	}
	for _, uri := range serves.uris {
		l.tell(l.notification(mcp.NotifyResourceUpdated, append(jsonrpc.AppendQuote([]byte(`{"uri":`), uri), '}')))
	}
}

// notification puts the subscription's id into a notification's _meta.
func (l *listenRound) notification(method string, params []byte) []byte {
	n := append([]byte(nil), `{"jsonrpc":"2.0","method":"`...)
	n = append(append(n, method...), `","params":{`...)
	start := len(n)
	n = jsonrpc.AppendMembers(n, params, isMeta)
	if len(n) > start {
		n = append(n, ',')
	}
	n = append(n, `"_meta":{`...)
	start = len(n)
	n = jsonrpc.AppendMembers(n, jsonrpc.Get(params, "_meta"), isSubscriptionID)
	if len(n) > start {
		n = append(n, ',')
	}
	n = append(n, `"`+mcp.MetaSubscriptionID+`":`...)
	return append(append(n, l.id...), "}}}"...)
}

func isMeta(name []byte) bool           { return string(name) == "_meta" }
func isSubscriptionID(name []byte) bool { return string(name) == mcp.MetaSubscriptionID }

// tell queues a notification. mu is held.
func (l *listenRound) tell(n []byte) {
	if l.err != nil || l.outcome != nil {
		return
	}
	if !l.queue.put(n, &l.engine.settings) {
		l.err = &Refusal{Reason: ReasonSlowClient, Detail: tooSlow}
	}
	l.rouse()
}

func (l *listenRound) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Notify implements legacy.Listener.
func (l *listenRound) Notify(m *jsonrpc.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acked && l.serves.admits(m) {
		l.tell(l.notification(m.Method, m.Params))
	}
}

// End implements legacy.Listener.
func (l *listenRound) End(error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		close(l.ended)
		l.ended = nil
	}
}

// finish ends the subscription gracefully: spec 2026-07-28,
// basic/patterns/subscriptions, "Graceful Closure".
func (l *listenRound) finish() {
	l.mu.Lock()
	acked := l.acked
	l.mu.Unlock()
	if !acked {
		l.end(nil, &Refusal{Reason: ReasonShutdown, Detail: "this replica is stopping; send the request again", RetryAfter: time.Second})
		return
	}
	l.end(&Outcome{Method: mcp.MethodListen, Result: []byte("{}"), Subscription: l.id}, nil)
}

func (l *listenRound) within() bool { return l.part }

func (l *listenRound) end(o *Outcome, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.outcome == nil && l.err == nil {
		l.outcome, l.err = o, err
	}
	l.rouse()
}

// Next implements Round.
func (l *listenRound) Next(until time.Time) (Event, error) {
	for {
		l.mu.Lock()
		ev, err, ok := l.ready()
		l.mu.Unlock()
		if ok {
			return ev, err
		}
		if _, woken := wait.For(l.wake, until); !woken {
			return Event{}, ErrDeadline
		}
	}
}

// ready must be called with mu held.
func (l *listenRound) ready() (Event, error, bool) {
	switch {
	case l.gone:
		return Event{}, ErrGone, true
	case len(l.queue.waiting) > 0:
		return Event{Notification: l.queue.take()}, nil, true
	case l.acked && len(l.calls.changed) > 0:
		return Event{Standing: l.calls.take()}, nil, true
	case l.err != nil:
		return Event{}, l.err, true
	case l.outcome != nil:
		return Event{Outcome: l.outcome}, nil, true
	}
	return Event{}, nil, false
}

// Gone implements Round.
func (l *listenRound) Gone() {
	l.mu.Lock()
	l.gone = true
	l.rouse()
	l.mu.Unlock()
	l.cancel()
}

// Served implements Round: a listener needs no other replica.
func (l *listenRound) Served() Served { return ServedLocal }

// CallID implements Round: a listener never parks.
func (l *listenRound) CallID() (id [16]byte) { return id }

// Close implements Round. The session is left in the background.
func (l *listenRound) Close() {
	l.cancel()
	l.engine.dismiss(l, caller(&l.key))
}

// letDown implements servedRound: a listener holds nothing that another replica
// could come back to.
func (l *listenRound) letDown(context.Context) { l.Gone() }
