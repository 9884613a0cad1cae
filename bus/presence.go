package bus

import (
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

const minBeatGap = 50 * time.Millisecond

// hear takes what comes on the subject of the heartbeats, this replica's own
// included.
func (b *Bus) hear(m *nats.Msg) {
	now := b.now()
	f, err := parseFrame(m.Data)
	if err == nil && f.typ != typeBeat {
		err = errors.New("not a heartbeat")
	}
	if errors.Is(err, errVersion) && f.typ == typeBeat && string(f.from) != b.s.Replica {
		b.hearForeign(string(f.from), f.flags, now)
	}
	var t beat
	if err == nil {
		t, err = parseBeat(f.payload)
	}
	if err != nil {
		b.log.warn("bus heartbeat is not understood", func(e *zerolog.Event) {
			e.Err(err).Bytes("peer", f.from).Uint8("version", f.version)
		})
		return
	}
	if string(f.from) == b.s.Replica {
		b.hearSelf(t.number, now)
		return
	}
	b.hearPeer(string(f.from), f.flags, &t, now)
}

// hearSelf: through external servers the own heartbeat is what confirms the
// lease. The embedded server would return it whatever becomes of the others.
func (b *Bus) hearSelf(number uint64, now int64) {
	if _, ok := b.lease.sentAt(number); !ok {
		b.log.warn("bus: another replica has this one's id", nil)
		return
	}
	if b.mode == External && b.lease.settled(now, b.timeout()/3) {
		b.confirm(number, now, 0)
	}
}

func (b *Bus) hearPeer(id string, fl flags, t *beat, now int64) {
	p := b.peers
	var left []string
	p.mu.Lock()
	r := p.get(id)
	if r == nil {
		p.mu.Unlock()
		b.log.warn("bus: too many replicas", func(e *zerolog.Event) { e.Int("max", maxPeers) })
		return
	}
	if r.left {
		p.mu.Unlock()
		return // an id never returns: this was overtaken by its goodbye
	}
	r.heard, r.number = now, t.number
	r.version, r.about = t.version, t.about
	r.since = now - int64(t.uptime)
	r.routePort = t.routePort
	found := !r.live && fl&flagBye == 0
	changed := found
	if fl&flagBye != 0 {
		changed = r.live
		r.leave()
		left = append(left, id)
	} else {
		r.live, r.required = true, b.mode == Clustered
	}
	for _, h := range t.heard {
		if h.id == b.s.Replica {
			if rtt := b.confirm(h.number, now, h.ago); rtt > 0 {
				r.rtt = rtt
			}
			continue
		}
		other := p.get(h.id)
		if other == nil || other.left {
			continue
		}
		other.reported = max(other.reported, now-int64(h.ago))
		if h.left {
			changed = changed || other.live
			other.leave()
			left = append(left, h.id)
		}
	}
	if (changed && !r.left) || fl&flagAsk != 0 {
		p.isDue = true
	}
	due := p.isDue
	p.mu.Unlock()
	if len(left) > 0 {
		b.log.log.Info().Strs("peers", left).Msg("bus peers have left")
	}
	if fl&flagBye != 0 {
		b.loseAfterRest(id)
	}
	if found {
		b.log.log.Info().Str("peer", id).Str("version", t.version).Msg("bus peer found")
	}
	if changed {
		p.changed()
	}
	if due {
		b.poke()
	}
}

// hearForeign takes a heartbeat of a version that is not understood here. It
// says that its sender lives, so that nobody takes over from it, and that it is
// there to be cut off from. But it can be asked nothing, and what it says of
// whom it hears cannot be read.
func (b *Bus) hearForeign(id string, fl flags, now int64) {
	p := b.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.get(id)
	if r == nil || r.left {
		return
	}
	r.heard = now
	if fl&flagBye != 0 {
		r.leave()
	} else {
		r.required = b.mode == Clustered
	}
}

func (r *peer) leave() { r.left, r.live, r.required = true, false, false }

// beat tells the others that this replica lives, and whom it hears.
func (b *Bus) beat(fl flags) {
	if b.mode == Embedded {
		return
	}
	p := b.peers
	p.mu.Lock()
	fl |= p.due
	p.due, p.isDue = 0, false // before About: what is announced from here on is for the next one
	p.mu.Unlock()
	about := b.s.About()
	if len(about) > maxAbout {
		b.log.warn("bus: too much about this replica for a heartbeat", func(e *zerolog.Event) { e.Int("bytes", len(about)) })
		about = nil
	}
	now := b.now()
	p.mu.Lock()
	p.number++
	t := beat{number: p.number, uptime: time.Duration(now), routePort: b.routePort, version: b.s.Version, about: about}
	for _, r := range p.m {
		if last := r.last(); last != 0 && now-last <= requiredFor*b.timeout() && (r.heard != 0 || r.left) {
			t.heard = append(t.heard, hearing{r.id, r.left, r.number, time.Duration(now - r.heard)})
		}
	}
	p.lastBeat = now
	p.mu.Unlock()
	// The nearest first, should there be too many.
	slices.SortFunc(t.heard, func(x, y hearing) int { return int(x.ago - y.ago) })
	b.lease.note(t.number, now)
	f := frame{typ: typeBeat, flags: fl, from: []byte(b.s.Replica)}
	if err := b.publish(b.alive, "", t.append(f.appendHeader(nil))); err != nil {
		b.log.log.Debug().Err(err).Msg("bus heartbeat not sent")
	}
}

// Announce has a heartbeat sent soon, because what Settings.About returns has
// changed.
func (b *Bus) Announce() {
	b.peers.mu.Lock()
	b.peers.isDue = true
	b.peers.mu.Unlock()
	b.poke()
}

// beatDue reports whether a heartbeat is to be sent now: for a third of the
// time in which two may be lost without harm, at once when somebody is new or
// asks, and never twice within minBeatGap.
func (b *Bus) beatDue(now int64) bool {
	p := b.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	since := now - p.lastBeat
	if p.number == 0 {
		return true
	}
	return since >= b.timeout()/6 || p.isDue && since >= int64(minBeatGap)
}
