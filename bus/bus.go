package bus

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// A Bus is one replica's place on the bus. Open makes it, Close ends it.
type Bus struct {
	s     Settings
	mode  Mode
	log   *limited
	epoch time.Time // all times in the package are nanoseconds since, by the monotonic clock

	srv   *server.Server // nil with a URL
	nc    *nats.Conn
	subs  sync.WaitGroup // callbacks of nc that may still run
	alive string         // subject of the heartbeats
	inbox string         // root of the subjects of what comes for this replica
	id    []byte         // Settings.Replica

	inboxes []*nats.Subscription

	routePort uint16 // 0 outside a cluster

	base    context.Context // of all handlers
	stop    context.CancelCauseFunc
	running sync.WaitGroup // every goroutine of this package

	peers *peers
	lease lease
	wake  chan struct{} // to the clock: something is due; room for one
	idle  chan struct{} // a handler has returned; room for one

	trouble  atomic.Pointer[string]
	reseated atomic.Bool // the connection came back; the clock takes note

	mu       sync.Mutex // guards what follows
	streams  map[streamKey]*Stream
	asked    map[token]*Stream // those of streams that this replica opened
	ended    memory
	serving  int // streams that peers opened
	handlers map[byte]func(context.Context, *Stream, []byte)
	tellers  map[byte]func(string, []byte)
	closing  bool // takes no new streams
	closed   bool // nothing new starts
}

// Mode is how a Bus is connected.
type Mode string

const (
	Embedded  Mode = "embedded" // own server, alone
	Clustered Mode = "cluster"  // own server, one of several
	External  Mode = "external" // servers of others
)

// Status is the state of a Bus at one moment.
type Status struct {
	Mode      Mode
	Connected bool          // the bus is up, and this replica holds its lease
	Reason    string        // why it is not Connected
	Peers     int           // live others
	RoundTrip time.Duration // last measured: through the server to itself, in a cluster to a peer; 0 if never
	Dropped   uint64        // messages lost here because they came faster than they could be read
}

// Open starts a bus. An error means unusable settings, or a port that cannot
// be had; servers and peers that cannot be reached (yet) are none.
func Open(s Settings, log zerolog.Logger) (*Bus, error) {
	s = s.withDefaults()
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	b := &Bus{
		s:        s,
		mode:     Embedded,
		log:      &limited{log: log},
		epoch:    time.Now(),
		alive:    s.Namespace + ".v1.alive",
		wake:     make(chan struct{}, 1),
		idle:     make(chan struct{}, 1),
		streams:  map[streamKey]*Stream{},
		asked:    map[token]*Stream{},
		id:       []byte(s.Replica),
		handlers: map[byte]func(context.Context, *Stream, []byte){},
		tellers:  map[byte]func(string, []byte){},
	}
	b.base, b.stop = context.WithCancelCause(context.Background())
	switch {
	case s.URL != "":
		b.mode = External
	case s.Cluster.Listen != "":
		b.mode = Clustered
	}
	b.inbox = b.subject(s.Replica)
	b.peers = newPeers(b.mode)
	b.lease.always = b.mode == Embedded
	if b.mode == Clustered {
		b.extend(b.timeout()) // nobody else is known yet
	}
	if err := b.connect(); err != nil {
		b.stop(ErrClosed)
		b.disconnect(0)
		b.running.Wait()
		return nil, fmt.Errorf("bus: %w", err)
	}
	b.running.Go(b.clock)
	return b, nil
}

// Close says goodbye to the peers and ends all streams: at once those that
// this replica opened, and when ctx is over those that it serves, whose
// handlers' contexts end at once with ErrClosed. It returns when all
// goroutines have; handlers must heed their context or their stream.
func (b *Bus) Close(ctx context.Context) {
	b.mu.Lock()
	first := !b.closing
	b.closing = true
	b.mu.Unlock()
	if !first {
		b.running.Wait()
		return
	}
	for _, s := range b.all() {
		if s.key.opened {
			s.end(ErrClosed, codeLeft)
		} else {
			s.cancel(ErrClosed)
		}
	}
	b.awaitHandlers(ctx)
	for _, s := range b.all() {
		s.end(ErrClosed, codeLost)
	}
	b.beat(flagBye)
	b.stop(ErrClosed)
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.disconnect(b.s.OwnerTimeout / 3)
	b.running.Wait()
}

// awaitHandlers returns when no stream is served any more, or ctx is over.
func (b *Bus) awaitHandlers(ctx context.Context) {
	for {
		b.mu.Lock()
		n := b.serving
		b.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-b.idle: // a handler has returned
		}
	}
}

// begin registers a goroutine or callback that Close waits for; running.Done
// ends it. False means that it is too late for a new one.
func (b *Bus) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.running.Add(1)
	return true
}

// Replica returns the id that the settings gave.
func (b *Bus) Replica() string { return b.s.Replica }

// Status may be called at any time.
func (b *Bus) Status() Status {
	st := Status{
		Mode:      b.mode,
		Peers:     b.peers.count(),
		RoundTrip: b.lease.roundTrip(),
	}
	for _, i := range b.inboxes {
		if n, err := i.Dropped(); err == nil {
			st.Dropped += uint64(n)
		}
	}
	switch {
	case b.nc.IsClosed():
		st.Reason = "closed"
	case !b.nc.IsConnected():
		st.Reason = "no NATS server can be reached"
		if err := b.nc.LastError(); err != nil {
			st.Reason += ": " + err.Error()
		}
	case !b.Confirmed():
		st.Reason = "no peer confirms that it hears this replica"
		if b.mode == External {
			st.Reason = "NATS does not return this replica's heartbeats"
		}
		if t := b.trouble.Load(); t != nil {
			st.Reason += ": " + *t
		}
	default:
		st.Connected = true
	}
	return st
}

func (b *Bus) isClosing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closing
}

// now is the time since the bus was opened, by the monotonic clock.
func (b *Bus) now() int64 { return int64(time.Since(b.epoch)) }

func (b *Bus) timeout() int64 { return int64(b.s.OwnerTimeout) }

// poke has the clock look at once.
func (b *Bus) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// all returns the streams of this moment.
func (b *Bus) all() []*Stream {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]*Stream, 0, len(b.streams))
	for _, s := range b.streams {
		all = append(all, s)
	}
	return all
}
