package bus

import "time"

// clock is the one goroutine that looks at the time: it sends heartbeats, and
// notices silence of peers and of streams.
func (b *Bus) clock() {
	every := max(b.s.OwnerTimeout/24, 5*time.Millisecond)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var swept, patientUntil int64
	held := b.Confirmed()
	for {
		select {
		case <-b.base.Done():
			return
		case <-b.wake:
			timer.Reset(min(every, minBeatGap)) // should it be too soon for a heartbeat
		case <-timer.C:
			timer.Reset(every)
		}
		now := b.now()
		if now-swept > b.timeout()/2 && swept != 0 {
			b.log.warn("bus: this process was frozen or starved of CPU", nil)
			patientUntil = now + b.timeout()/3
			b.peers.listenFrom(now, flagAsk)
		}
		if b.reseated.Swap(false) {
			b.peers.listenFrom(now, flagAsk)
		}
		if now-swept >= int64(every)/2 {
			swept = now
			held = b.sweep(now, now < patientUntil, held)
		}
		// Last, because it calls About: time that is lost there shows above.
		if b.mode != Embedded && b.beatDue(now) {
			b.beat(0)
		}
	}
}

// sweep looks at the peers, the lease, which was held at the last look or not,
// and the streams. It returns whether the lease is held.
func (b *Bus) sweep(now int64, patient, held bool) bool {
	if b.mode != Embedded {
		b.sweepPeers(now, patient)
	}
	if b.mode == Clustered {
		b.probePeers(now)
	}
	holds := b.Confirmed()
	if holds != held {
		if holds {
			b.peers.listenFrom(now, 0)
		}
		b.logLease(holds)
	}
	b.sweepStreams(now, patient)
	return holds
}

// listenFrom notes that silence up to now says nothing. With flagAsk everybody
// is asked to speak.
func (p *peers) listenFrom(now int64, fl flags) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listening = now
	if fl != 0 {
		p.due |= fl
		p.isDue = true
	}
}

func (b *Bus) logLease(held bool) {
	if held {
		b.log.log.Info().Msg("bus lease confirmed")
	} else {
		b.log.log.Warn().Str("reason", b.Status().Reason).Msg("bus lease has run out")
	}
}

// sweepStreams has all streams look at the time.
func (b *Bus) sweepStreams(now int64, patient bool) {
	for _, s := range b.all() {
		s.tick(now, patient)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended.expire(now - 2*b.timeout())
}
