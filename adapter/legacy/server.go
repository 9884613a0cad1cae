package legacy

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Capabilities are what the clients of a session declared.
type Capabilities = *mcp.Capabilities

// Key says which calls may share a session.
type Key struct {
	Principal [16]byte // who is calling: a digest
	Extra     []byte   // what else keeps sessions apart, such as clientInfo
	Caps      Capabilities
	// ClientInfo is the raw clientInfo for initialize, or nil. It is no part of
	// the key.
	ClientInfo []byte
	// Ephemeral sessions serve one call and end with it.
	Ephemeral bool
	// Shared sessions serve several principals, of which Principal is none then.
	// An eligible call is alone on one: what the server asks must never reach
	// another principal.
	Shared bool
	// Caller is who is calling, with Shared. It is no part of the key.
	Caller [16]byte
}

// Server is one upstream: its address and the pool of its sessions.
type Server struct {
	settings *Settings
	endpoint *endpoint // without an address for a server over stdio
	restarts restarts  // of its processes
	log      zerolog.Logger
	noisy    zerolog.Logger // for what a server can cause at will: a few lines in a while

	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // the janitor and everything it or Acquire starts

	counter     atomic.Uint64
	pushes      atomic.Bool  // the server pushes input requests on the GET stream
	noStream    atomic.Bool  // the server has no GET stream
	noIDs       atomic.Bool  // the server gives out no session ids
	overSSE     atomic.Bool  // the server was found to speak HTTP+SSE
	settled     atomic.Bool  // whether it does is known
	sessions    atomic.Int64 // open or opening
	attributing atomic.Int64 // input requests whose calls are looked for in the background
	asking      atomic.Int64 // calls that wait to ask for room again
	delivering  atomic.Int64 // responses on their way to peers

	info       atomic.Pointer[Info] // of the newest session
	complained atomic.Int64         // when complain last logged, in Unix nanoseconds

	hearing chan heard    // what peers have told, with Settings.Peers
	stir    chan struct{} // makes the janitor look at the live peers now

	knownMu sync.Mutex
	byID    map[string]*Session  // sessions with an id, with Settings.Peers
	goneIDs map[string]time.Time // sessions that the server has said not to know, with Settings.Peers: when it did

	crowd crowd // who wait for room for a session

	mu      sync.Mutex
	entries map[string]*entry
	closed  bool
}

// NewServer makes a Server. It opens no connection until it is used.
func NewServer(settings Settings, log zerolog.Logger) (*Server, error) {
	s := &Server{settings: &settings, log: log, noisy: log.Sample(&zerolog.BurstSampler{Burst: 5, Period: complainEvery}), entries: make(map[string]*entry)}
	s.pushes.Store(settings.PushesOnGET)
	if t := settings.Transport; t == TransportStdio || t == TransportSSE {
		s.pushes.Store(true)
		s.noIDs.Store(true)
	}
	if settings.Transport == TransportStdio {
		s.restarts.settings = settings.Command
		s.endpoint = &endpoint{settings: s.settings}
	} else {
		endpoint, err := newEndpoint(s.settings)
		if err != nil {
			return nil, err
		}
		s.endpoint = endpoint
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.stir = make(chan struct{}, 1)
	s.wg.Add(1)
	go s.janitor()
	if settings.Peers != nil {
		s.byID = make(map[string]*Session)
		s.hearing = make(chan heard, hearings)
		s.wg.Add(1)
		go s.hear()
	}
	return s, nil
}

// Sessions returns the number of sessions that are open or opening, without
// those that other replicas lend.
func (s *Server) Sessions() int {
	n := int(s.sessions.Load())
	live := s.live()
	if len(live) == 0 {
		return n
	}
	for _, e := range s.all() {
		e.mu.Lock()
		if e.first != nil && e.first.turn == nil && !e.first.asHome && e.shares() {
			n--
		}
		for _, list := range [...][]*Session{e.sessions, e.adopted} {
			for _, session := range list {
				if !session.holds() && slices.Contains(live, session.holder) {
					n--
				}
			}
		}
		e.mu.Unlock()
	}
	return n
}

// OpenTimeout is how long a session may take to open.
func (s *Server) OpenTimeout() time.Duration { return s.settings.OpenTimeout }

// closing reports whether Close was called.
func (s *Server) closing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// PushesOnGET reports whether the server is known to push its input requests
// on the GET stream, so that an eligible call needs a session of its own.
func (s *Server) PushesOnGET() bool { return s.pushes.Load() }

func (s *Server) learnPush() {
	if !s.pushes.Swap(true) {
		s.log.Info().Str("upstream", s.settings.Name).
			Msg("upstream pushes its input requests on the GET stream: eligible calls get a session each from now on")
		s.tellAll(&parcel{kind: tellPushes})
	}
}

// Acquire lends a session, opening one where none is free. An eligible call is
// one that may be asked something. It returns ErrFull, ErrClosed, ErrUnreachable,
// a StatusError, or ctx's error.
func (s *Server) Acquire(ctx context.Context, key *Key, eligible bool, creds Credentials) (*Session, error) {
	for {
		e, err := s.entry(key)
		if err != nil {
			return nil, err
		}
		session, again, err := e.acquire(ctx, eligible, creds, false)
		if !again {
			return session, err
		}
	}
}

// TryAcquire lends a session that is free at once, or returns nil.
//
// Hot: once per call.
func (s *Server) TryAcquire(key *Key, eligible bool) *Session {
	var space [256]byte
	text := key.appendText(space[:0])
	s.mu.Lock()
	e := s.entries[string(text)]
	s.mu.Unlock()
	if e == nil {
		return nil
	}
	return e.try(eligible)
}

// appendText: a fixed size and a length keep the parts apart, so that no two keys read the same.
func (k *Key) appendText(dst []byte) []byte {
	dst = append(dst, k.Principal[:]...)
	dst = strconv.AppendInt(dst, int64(len(k.Extra)), 10)
	dst = append(dst, ':')
	dst = append(dst, k.Extra...)
	return append(dst, k.Caps.Raw...)
}

func (s *Server) entry(key *Key) (*entry, error) {
	text := string(key.appendText(nil))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	e := s.entries[text]
	if e == nil {
		own := *key
		own.ClientInfo, own.Extra = bytes.Clone(key.ClientInfo), bytes.Clone(key.Extra)
		e = &entry{server: s, key: own, text: text, digest: digestKey(s.settings.Name, text)}
		s.entries[text] = e
	}
	return e, nil
}

// NextID numbers requests over all sessions: an id that comes late, or on the
// wrong stream, can belong to no other call.
func (s *Server) NextID() uint64 { return s.counter.Add(1) }

// AppendID appends an id as a JSON string: a request's id and progress token.
func (s *Server) AppendID(dst []byte, id uint64) []byte {
	dst = append(dst, '"')
	dst = append(dst, s.settings.IDPrefix...)
	dst = append(dst, '-')
	dst = strconv.AppendUint(dst, id, 10)
	return append(dst, '"')
}

// parseID reads what AppendID wrote.
//
// Hot: once per response and progress notification.
func (s *Server) parseID(raw []byte) (uint64, bool) {
	p := len(s.settings.IDPrefix)
	if len(raw) < p+4 || raw[0] != '"' || string(raw[1:1+p]) != s.settings.IDPrefix || raw[1+p] != '-' || len(raw) > p+23 {
		return 0, false
	}
	digits := raw[p+2 : len(raw)-1]
	if digits[0] == '0' && len(digits) > 1 || raw[len(raw)-1] != '"' {
		return 0, false
	}
	var n uint64
	for _, c := range digits {
		d := uint64(c - '0')
		if c < '0' || c > '9' || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

func (s *Server) isID(raw []byte, id uint64) bool {
	n, ok := s.parseID(raw)
	return ok && n == id
}

// complain logs that no session can be had, at most once in complainEvery:
// every request meets the same trouble.
func (s *Server) complain(err error) {
	var status *StatusError
	if errors.As(err, &status) && status.Unauthorized() {
		return // the client's trouble, and told there
	}
	now := time.Now().UnixNano()
	last := s.complained.Load()
	if now-last < int64(complainEvery) || !s.complained.CompareAndSwap(last, now) {
		return
	}
	s.log.Warn().Err(err).Str("upstream", s.settings.Name).Msg("no session with the upstream")
}

const complainEvery = 10 * time.Second

// janitor expires what is no longer used, once a second.
func (s *Server) janitor() {
	defer s.wg.Done()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-tick.C:
			s.endpoint.expire(now)
			s.relieve()
			for _, e := range s.all() {
				e.expire(now)
				if s.settings.Peers != nil {
					e.freeLost()
					e.tend()
					e.tellCredentials()
				}
			}
		case <-s.stir:
			for _, e := range s.all() {
				e.freeLost()
				e.tend()
			}
		}
	}
}

func (s *Server) all() []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := make([]*entry, 0, len(s.entries))
	for _, e := range s.entries {
		entries = append(entries, e)
	}
	return entries
}

// background runs f in a goroutine that Close waits for.
func (s *Server) background(f func()) {
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		f()
	}()
}

// Close ends all sessions, within ctx: each is deleted at the server, unless
// peers use it, or it is held for calls that were let go; one of them takes it
// over then. Nothing may be in flight any more.
func (s *Server) Close(ctx context.Context) {
	s.leaveCredentials(ctx)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	var closing sync.WaitGroup
	limit := make(chan struct{}, 64) // at a time, so that many sessions do not mean many sockets
	for _, e := range s.all() {
		for _, session := range e.shut() {
			limit <- struct{}{}
			closing.Add(1)
			go func() {
				defer closing.Done()
				defer func() { <-limit }()
				session.close(ctx, !s.endElsewhere(ctx, session))
				s.vacate()
			}()
		}
	}
	closing.Wait()
	s.cancel()
	s.wg.Wait()
	s.endpoint.close()
}

// Reachable reports whether the upstream accepts connections, or its command can
// be run and does not keep ending.
func (s *Server) Reachable(ctx context.Context) error {
	if s.settings.Transport == TransportStdio {
		return s.restarts.reachable()
	}
	c, err := s.endpoint.dial(ctx)
	if err != nil {
		return err
	}
	c.close()
	return nil
}
