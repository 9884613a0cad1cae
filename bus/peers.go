package bus

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Peer is another live replica: heard within OwnerTimeout, and it has not said
// goodbye.
type Peer struct {
	ID      string
	Version string
	About   []byte // what its Settings.About returned last
	Since   time.Time
	Heard   time.Time
	RTT     time.Duration // 0 while not measured
}

// peers is what is known of the other replicas.
type peers struct {
	mode   Mode
	routes *routes // nil outside a cluster

	mu        sync.Mutex // guards what follows
	m         map[string]*peer
	listening int64 // since when what is silent to us would have been heard
	number    uint64
	lastBeat  int64
	due       flags // beat at once, and with these
	isDue     bool
	watches   map[*watch]struct{}
}

// peer is one other replica, maybe known only from what others say.
type peer struct {
	id, version string
	about       []byte
	since       int64
	heard       int64 // 0: never, by us
	reported    int64 // the same by others; 0: never
	number      uint64
	rtt         int64
	live, left  bool
	required    bool // for the lease of this replica, see Confirmed
	routePort   uint16
	addr        netip.AddrPort // of its routes, once it has taken a connection
	probed      int64
	probing     bool
}

const (
	maxPeers = 4096
	// requiredFor times OwnerTimeout is how long silence alone keeps a peer
	// required, and how long it is remembered.
	requiredFor = 20
)

func newPeers(m Mode) *peers {
	return &peers{mode: m, m: map[string]*peer{}, watches: map[*watch]struct{}{}, isDue: true, due: flagAsk}
}

// last is when the peer was last heard by anybody.
func (p *peer) last() int64 { return max(p.heard, p.reported) }

// get returns the record of id, making one if there is room. p.mu is held.
func (p *peers) get(id string) *peer {
	r := p.m[id]
	if r == nil && len(p.m) < maxPeers {
		r = &peer{id: id}
		p.m[id] = r
	}
	return r
}

func (p *peers) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, r := range p.m {
		if r.live {
			n++
		}
	}
	return n
}

func (p *peers) hasLeft(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.m[id]
	return r != nil && r.left
}

// Peers returns the live others, sorted by id.
func (b *Bus) Peers() []Peer {
	b.peers.mu.Lock()
	defer b.peers.mu.Unlock()
	var all []Peer
	for _, r := range b.peers.m {
		if r.live {
			all = append(all, Peer{
				ID: r.id, Version: r.version, About: slices.Clone(r.about),
				Since: b.epoch.Add(time.Duration(r.since)),
				Heard: b.epoch.Add(time.Duration(r.heard)),
				RTT:   time.Duration(r.rtt),
			})
		}
	}
	slices.SortFunc(all, func(x, y Peer) int { return strings.Compare(x.ID, y.ID) })
	return all
}

// Missing reports whether another replica may live that is not heard: one that
// has fallen silent within 20 times OwnerTimeout, without a goodbye, and is not
// known to be dead otherwise, see Confirmed.
func (b *Bus) Missing() bool {
	now := b.now()
	p := b.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.m {
		if r.heard != 0 && !r.live && !r.left && now-r.last() <= requiredFor*b.timeout() && (r.required || b.mode != Clustered) {
			return true
		}
	}
	return false
}

// HeardAgo says how long ago this replica, or any that it hears, heard of
// replica id; left is true after its goodbye. Silence counts only since this
// replica last began to listen: after it was opened, reconnected, frozen, or
// without its lease. It is proof of nothing unless this replica is Confirmed.
//
// Embedded, there is nobody to be heard of: every other id has left long ago.
func (b *Bus) HeardAgo(id string) (ago time.Duration, left bool) {
	switch {
	case id == b.s.Replica:
		return 0, false
	case b.mode == Embedded:
		return math.MaxInt64, true
	}
	b.peers.mu.Lock()
	defer b.peers.mu.Unlock()
	last := b.peers.listening
	if r := b.peers.m[id]; r != nil {
		if r.left {
			return time.Duration(b.now() - r.last()), true
		}
		last = max(last, r.last())
	}
	return time.Duration(b.now() - last), false
}

// sweepPeers notes who is silent. Unless patient: then this process has just
// been frozen, and what the others said is still to be read.
func (b *Bus) sweepPeers(now int64, patient bool) {
	t := b.timeout()
	var quiet, gone []string
	required := 0
	// Through external servers, silence says nothing of the others while not even
	// this replica's own heartbeats come back.
	patient = patient || b.mode == External && b.lease.deaf(now, t/3)
	p := b.peers
	p.mu.Lock()
	for id, r := range p.m {
		if !patient && r.live && now-r.heard > t {
			r.live = false
			quiet = append(quiet, id)
		}
		silent := now - r.last()
		if r.required && !b.stillRequired(r, now) {
			r.required = false
			gone = append(gone, id)
		}
		if r.required {
			required++
		}
		// Who has left is remembered as long as there is room: calls that
		// name it as their owner come back hours later.
		if silent > requiredFor*t && (!r.left || len(p.m) > maxPeers/2) {
			delete(p.m, id)
		}
	}
	p.mu.Unlock()
	if len(quiet) > 0 {
		b.log.log.Info().Strs("peers", quiet).Msg("bus peers are silent")
		p.changed()
	}
	if len(gone) > 0 {
		b.log.log.Info().Strs("peers", gone).Msg("bus peers are gone")
	}
	if b.mode == Clustered && required == 0 && !patient {
		b.extend(now + t)
	}
}

// loseAfterRest ends what has to do with a replica that said goodbye, once all
// that it sent before has been read: heartbeats and streams are read by
// different goroutines. A stream that it had not taken by then never was.
func (b *Bus) loseAfterRest(id string) {
	if err := b.nc.Barrier(func() { b.lose(id) }); err != nil {
		b.lose(id) // this bus is closed, too
	}
}

func (b *Bus) lose(id string) {
	for _, s := range b.all() {
		if s.key.peer != id {
			continue
		}
		if s.untaken() {
			s.end(ErrLeft, 0)
		} else {
			s.end(errLostLeft, 0)
		}
	}
}
