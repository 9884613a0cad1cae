package legacy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Info is what a server said of itself at initialize. It does not change.
type Info struct {
	raw []byte // the initialize result, which the other slices alias

	Version      string // negotiated revision
	Revision     mcp.Revision
	ServerInfo   []byte // raw
	Capabilities []byte // raw
	Instructions []byte // raw JSON string, or nil

	Logging     bool
	TaskCalls   bool // tasks.requests.tools.call
	TaskCancel  bool // tasks.cancel
	Tools       bool
	Subscribe   bool // resources.subscribe
	ToolsList   bool // tools.listChanged
	PromptsList bool
	ResList     bool // resources.listChanged
}

// Session is one initialized session with a legacy server. Calls share it;
// Server.Acquire lends it and Exchange.Finish gives it back.
type Session struct {
	server *Server
	entry  *entry
	caps   Capabilities
	id     string // Mcp-Session-Id, or "" where the server gives none
	info   *Info
	head   []byte // header fields of every request
	// postHead is a POST's request line and all fields but credentials and length.
	postHead []byte

	outbox *outbox
	opened bool // by a handshake of this replica

	// channel is where the server has one stream for all of the session; nil for
	// Streamable HTTP.
	channel channel
	target  string        // where HTTP+SSE wants its POSTs; "": the upstream's own URL
	answers int           // that came on the channel; its reader's own
	unread  chan struct{} // closed once nobody reads the channel any more

	// Guarded by entry.mu.
	users    int // exchanges and listeners
	eligible int // of them, exchanges that may be asked something
	ended    int // eligible calls that have ended without a response a moment ago, see awaitLate
	held     int // of eligible, those that were cancelled a moment ago, see holdLate
	lastUse  time.Time
	adopted  bool                // it serves calls that began elsewhere or earlier, and no others
	apart    bool                // and will serve no others: another session is the key's
	kept     bool                // taken over from a replica that ended: calls that were let go may come back to it
	spent    bool                // an eligible call of a shared key ended here, of which the server may still ask something
	ending   bool                // it is being found out whether peers use it
	holder   string              // the replica that has the GET stream and may DELETE, or "": not known
	remote   map[string]int      // of eligible, those of other replicas, where this one is the home
	counted  bool                // remote is known: the peers were asked, or could have no call here
	granted  time.Time           // when a place was last lent to another replica
	places   int                 // eligible calls here that the home counts
	life     uint64              // when this replica came to know the session, in Unix nanoseconds
	freed    uint64              // places that were given back since
	returned map[string]returned // what is known of that at other replicas, where this one is the home
	drained  bool                // who holds it ends it
	peerUse  time.Time           // when creds were used, where that was at another replica
	offered  string              // the home that the session was last offered to
	refused  time.Time           // when a home last did not take it over
	lowered  time.Time           // when the log level was last seen to be too verbose

	mu        sync.Mutex
	calls     map[uint64]*Exchange
	late      map[uint64]chan struct{} // of calls that have ended without a response: closed when that comes
	foreign   map[string]*Exchange     // of calls, those whose id another replica has made, or that have another
	expecting map[Sink]struct{}        // who wants to hear of interactions that are over
	listeners map[Listener]struct{}
	topics    map[string]*topic
	orphans   []Orphan
	creds     Credentials // of the last use, for housekeeping
	told      Credentials // of them, what the session's holder was told
	gone      bool        // the server no longer knows the session
	lost      error       // why the channel has ended, or nil
	closed    bool
	stands    *standing           // the GET stream, or nil
	event     []byte              // where the GET stream ended, once it has
	let       bool                // an exchange was let go
	noted     map[string]struct{} // replicas where questions wait for an eligible call

	levels  [mcp.LevelEmergency + 1]int // live calls by the level they want
	levelMu chan struct{}               // a mutex that a context can give up: one setLevel at a time
	level   mcp.Level                   // what the server was told; guarded by mu
}

// Info returns what the server said of itself.
func (s *Session) Info() *Info { return s.info }

// Prepare registers a request that is about to be sent on a session that
// Acquire lent with the same eligible. id comes from Server.NextID. Finish
// undoes it.
// askable says that the method may be asked something, whatever the client
// declared.
func (s *Session) Prepare(id uint64, sink Sink, creds Credentials, eligible, askable bool, level mcp.Level) *Exchange {
	x := &Exchange{sink: sink, id: id, askable: askable, eligible: eligible, level: level, creds: creds}
	x.session = s
	if s.channel != nil {
		x.woke = make(chan struct{}, 1)
	}
	s.mu.Lock()
	s.calls[x.id] = x
	s.levels[level]++
	s.creds = creds.Lasting()
	s.mu.Unlock()
	return x
}

// end takes an exchange off the session's books. It reports whether this call
// did so.
func (s *Session) end(x *Exchange) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.ended {
		return false
	}
	x.ended = true
	delete(s.calls, x.id)
	if id := x.foreign(); id != "" && s.foreign[id] == x {
		delete(s.foreign, id)
	}
	if !x.continues { // else what comes now is for the request that goes on
		s.unalias(x)
	}
	s.levels[x.level]--
	return true
}

// Return gives a session back that Acquire lent and Prepare did not take.
func (s *Session) Return(eligible bool) { s.entry.release(s, eligible) }

// release gives the exchange's place on the session back.
func (s *Session) release(x *Exchange) {
	switch {
	case !x.eligible || x.settled.Load() || s.entry.key.Ephemeral:
	case s.entry.key.Shared:
		s.entry.spend(s)
	case s.channel != nil:
		s.awaitLate(x)
	case x.cancelled.Load() && s.server.pushes.Load():
		s.holdLate(x)
		return
	}
	s.entry.release(s, x.eligible)
}

// markGone: the server answered 404. Calls in flight may still end on their
// own streams; new ones get a new session.
func (s *Session) markGone() {
	if s.forget() && s.reach() {
		s.server.tellAll(&parcel{kind: tellGone, id: s.id})
	}
}

// forget is markGone, but for what a peer has found out. It reports whether it
// was news.
func (s *Session) forget() bool {
	s.mu.Lock()
	was := s.gone
	s.gone = true
	s.mu.Unlock()
	if !was {
		s.server.noteGone(s.id)
		s.entry.drop(s)
		s.stopListening()
		s.endListeners(ErrSessionGone)
	}
	return !was
}

// get asks for a stream; the caller reads the response's head.
func (s *Session) get(ctx context.Context, creds Credentials, lastID []byte) (*conn, error) {
	c, err := s.server.endpoint.dial(ctx)
	if err != nil {
		return nil, err
	}
	request := s.server.endpoint.appendHead(getText(1024), "GET", "")
	request = append(request, "Accept: text/event-stream\r\nCache-Control: no-cache\r\n"...)
	request = append(request, s.head...)
	request = s.server.endpoint.appendCredentials(request, creds)
	if lastID != nil {
		request = appendField(request, "Last-Event-ID", string(lastID))
	}
	request = append(request, "\r\n"...)
	_, err = c.send(request, s.server.settings.WriteTimeout)
	putText(request)
	if err != nil {
		c.close()
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return c, nil
}

// settle gives a connection back whose response nobody reads on.
func (e *endpoint) settle(c *conn) {
	for !c.resp.done && c.r < c.w {
		if _, err := c.next(); err != nil {
			break
		}
	}
	if !c.resp.done {
		c.setDeadline(time.Now().Add(time.Second))
		for range 16 {
			if _, err := c.next(); err != nil {
				break
			}
		}
	}
	if !c.resp.done {
		c.resp.keep = false
	}
	e.release(c)
}

// Request sends a request of our own and waits for its response. A JSON-RPC
// error comes back as *jsonrpc.Error.
func (s *Session) Request(ctx context.Context, creds Credentials, method string, params []byte) ([]byte, error) {
	result, _, err := s.Inquire(ctx, creds, method, params)
	return result, err
}

// answer is the sink of a request of our own.
type answer struct {
	result []byte
	err    error
}

func (a *answer) Receive(m *jsonrpc.Message, _ bool) {
	switch {
	case m.Result != nil:
		a.result = append([]byte(nil), m.Result...)
	case m.Error != nil:
		if e, ok := jsonrpc.ParseError(append([]byte(nil), m.Error...)); ok {
			a.err = e
		} else {
			a.err = ErrMalformed
		}
	}
}

func (a *answer) Fail(err error) { a.err = err }

// enqueue posts a text in the background; the outbox owns text.
func (s *Session) enqueue(creds Credentials, text []byte) { s.outbox.put(creds, text) }

// PostLater posts a text in the background, in order with others of its kind.
// It takes ownership of text.
func (s *Session) PostLater(creds Credentials, text []byte) { s.enqueue(creds, text) }

// close ends the session: streams, waiting messages, and with remove the session
// at the server. Spec 2025-11-25, basic/transports, "Session Management", 5.
func (s *Session) close(ctx context.Context, remove bool) {
	if !s.server.closing() { // else peers still ask who has ended it
		s.server.unregister(s)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	gone, creds := s.gone, s.creds
	orphans := s.orphans
	s.orphans = nil
	s.mu.Unlock()
	s.endListeners(ErrClosed)
	for _, o := range orphans {
		s.enqueue(creds, o.refusal("no call took the request before the session ended"))
	}
	if s.channel != nil {
		s.closeChannel(ctx)
		return
	}
	s.outbox.close(ctx)
	if remove {
		s.awaitStream(ctx)
	}
	s.unhold()
	if s.id == "" || gone || !remove {
		return
	}
	if s.reach() { // who has it without using it opens another
		s.server.tellAll(&parcel{kind: tellDrain, id: s.id})
	}
	if err := s.delete(ctx, creds); err != nil {
		s.server.log.Debug().Err(err).Str("upstream", s.server.settings.Name).Msg("session delete unanswered")
	}
}

func (s *Session) delete(ctx context.Context, creds Credentials) error {
	c, err := s.server.endpoint.dial(ctx)
	if err != nil {
		return err
	}
	defer c.free()
	defer c.close()
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	request := s.server.endpoint.appendHead(getText(1024), "DELETE", "")
	request = append(request, s.head...)
	request = s.server.endpoint.appendCredentials(request, creds)
	request = append(request, "Connection: close\r\n\r\n"...)
	_, err = c.send(request, s.server.settings.WriteTimeout)
	putText(request)
	if err != nil {
		return err
	}
	c.setDeadline(time.Now().Add(s.server.settings.PostTimeout))
	return c.readHead()
}
