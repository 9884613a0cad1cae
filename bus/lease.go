package bus

import (
	"sync"
	"sync/atomic"
	"time"
)

// A lease says until when the others may be expected to believe that this
// replica lives. It is counted from when the heartbeat that they confirm was
// sent, not from when its echo came: a process that was frozen must not act on
// an echo that waited in a socket.
type lease struct {
	always bool         // there are no others
	until  atomic.Int64 // Bus.now; only grows
	lapses atomic.Uint64
	rtt    atomic.Int64

	mu   sync.Mutex // guards what follows, and the order of lapses and until
	sent [256]sentBeat
	back int64 // external: since when echoes come again after the lease had run out
	echo int64 // when the last one came
}

// sentBeat is one of this replica's heartbeats.
type sentBeat struct {
	number uint64
	at     int64
}

// Confirmed reports whether this replica holds its lease, so that it may act
// for what it owns.
//
// Embedded, it always does. With external servers it does while one of its own
// heartbeats, sent within the last OwnerTimeout, came back to it, and once it did
// not, after a third of OwnerTimeout in which they come back again. In a cluster
// a peer must have confirmed such a heartbeat; if no peer is required, none
// need to. A peer is required from when it was first heard until it says
// goodbye, its address refuses connections (the process is dead, the machine
// is not), its address leaves the DNS name of the replicas, or it has been
// silent for 20 times OwnerTimeout.
//
// Any one peer's word is enough: after a split into several groups, each of at
// least two replicas, all of them are confirmed. Hot: before each write.
func (b *Bus) Confirmed() bool {
	return b.lease.always || b.now() < b.lease.until.Load()
}

// Lapses counts how often the lease had run out before it was confirmed again.
// In between, another replica may have taken over what this one owns.
func (b *Bus) Lapses() uint64 { return b.lease.lapses.Load() }

// extend moves the end of the lease to until, unless it is later already.
func (b *Bus) extend(until int64) {
	l := &b.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.until.Load()
	if until <= old {
		return
	}
	if old != 0 && b.now() >= old {
		l.lapses.Add(1) // before until: who finds the lease confirmed must see it
	}
	l.until.Store(until)
}

// settled reports whether an echo of this replica's own may confirm its lease.
// One that had run out it confirms only after a while, in which every peer that
// reaches the servers has spoken: whoever asks the live peers what became of its
// calls must know them.
func (l *lease) settled(now, while int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	until, last := l.until.Load(), l.echo
	l.echo = now
	if until == 0 || now < until {
		l.back = 0
		return true
	}
	if l.back == 0 || now-last > while {
		l.back = now
	}
	return now-l.back >= while
}

// deaf reports whether no echo has come for a while.
func (l *lease) deaf(now, while int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now-l.echo > while
}

func (l *lease) note(number uint64, at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[number%uint64(len(l.sent))] = sentBeat{number, at}
}

// sentAt says when a heartbeat was sent, for those that can still matter.
func (l *lease) sentAt(number uint64) (at int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sent[number%uint64(len(l.sent))]
	return s.at, s.number == number && number != 0
}

func (l *lease) roundTrip() time.Duration { return time.Duration(l.rtt.Load()) }

// confirm takes the word, come at now, that heartbeat number was heard ago ago.
func (b *Bus) confirm(number uint64, now int64, ago time.Duration) (rtt int64) {
	at, ok := b.lease.sentAt(number)
	if !ok {
		return 0
	}
	b.extend(at + b.timeout())
	if rtt = now - at - int64(ago); rtt > 0 {
		b.lease.rtt.Store(rtt)
	}
	return rtt
}
