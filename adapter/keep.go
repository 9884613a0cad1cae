package adapter

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// A replica that stops leaves records of the calls that others are to go on
// with, each at the one that will (ladder.go, taker). Whoever keeps a record
// keeps the session open, and tells the server when the client does not come
// back.

// keepBatch is how many records go into one message.
const keepBatch = 256

// Bounds of what another replica may leave here.
const (
	maxKept    = 16 << 10        // bytes of the ids of open input requests
	maxParkTTL = 170 * time.Hour // somewhat more than calls.park_ttl may be
)

// keepable is a record on its way to another replica.
type keepable struct {
	id  [16]byte
	up  *upstream
	rec *record
}

func (k *keepable) append(dst fields) fields {
	s := k.rec.session
	key := s.Key()
	f := fields{}
	f.bytes('c', k.id[:])
	f.text('u', PeersName(k.up.Name, k.up.id))
	f.text('s', s.ID())
	f.text('v', s.Info().Version)
	f.text('q', k.rec.request)
	f.bytes('a', k.rec.asked)
	f.number('t', uint64(k.rec.until))
	k.rec.left.append(&f)
	k.rec.vigil.append(&f)
	f.bytes('p', key.Principal[:])
	f.bytes('x', key.Extra)
	if key.Shared {
		f.number('h', 1)
	}
	f.text('C', key.Caps.Raw)
	f.bytes('I', key.ClientInfo)
	for _, c := range s.Housekeeping() {
		f.text('f', c.Name+"\x00"+c.Value)
	}
	dst.bytes('r', f)
	return dst
}

// readKeepable reads what append wrote, and lends the session.
func (e *Engine) readKeepable(ctx context.Context, b []byte) (*keepable, error) {
	k := &keepable{rec: &record{since: sinceNow()}}
	var key legacy.Key
	var at legacy.Position
	var creds legacy.Credentials
	var caps []byte
	ok := readFields(b, func(f item) {
		switch f.tag {
		case 'c':
			if len(f.value) == len(k.id) {
				k.id = [16]byte(f.value)
			}
		case 'u':
			k.up = e.upstreams()[string(f.value)]
		case 's':
			at.Session = string(f.value)
		case 'v':
			at.Version = string(f.value)
		case 'q':
			k.rec.request = string(f.value)
		case 'a':
			k.rec.asked = append([]byte(nil), f.value...)
		case 't':
			k.rec.until = int64(f.number())
		case 'L':
			k.rec.left = readHeirloom(f.value)
		case 'E', 'O':
			if k.rec.vigil == nil {
				k.rec.vigil = new(vigil)
			}
			if id := string(f.value[:min(len(f.value), maxKey)]); f.tag == 'E' {
				k.rec.vigil.add(id)
			} else {
				k.rec.vigil.note(id)
			}
		case 'p':
			if len(f.value) == len(key.Principal) {
				key.Principal = principal(f.value)
			}
		case 'x':
			key.Extra = append([]byte(nil), f.value...)
		case 'h':
			key.Shared = true
		case 'C':
			caps = f.value
		case 'I':
			key.ClientInfo = append([]byte(nil), f.value...)
		case 'f':
			c := cutField(f.value)
			creds = append(creds, legacy.Field(c))
		}
	})
	if !ok || k.up == nil || k.id == [16]byte{} || !validIDs(k.rec.asked) || len(k.rec.asked) > maxKept || len(k.rec.request) > state.MaxRequest ||
		len(at.Session) > state.MaxSession || k.rec.until < 0 || k.rec.until > time.Now().Add(maxParkTTL).UnixNano() {
		return nil, errWire
	}
	var err error
	if key.Caps, err = e.caps.get(caps); err != nil {
		return nil, err
	}
	k.rec.session, err = k.up.Server.Adopt(ctx, &key, at, false, creds)
	return k, err
}

// serveKeep keeps the records that a replica leaves, and says which; or that
// this one leaves as well.
func (e *Engine) serveKeep(ctx context.Context, s Stream, rest []byte) {
	if e.draining.Load() {
		_ = s.End(ctx, e.seal(newFields(formAway, 0)))
		return
	}
	kept := newFields(formFound, 0)
	readFields(rest, func(f item) {
		if f.tag != 'r' {
			return
		}
		k, err := e.readKeepable(ctx, f.value)
		if err != nil {
			e.log.Debug().Err(err).Msg("record of another replica's call not kept")
			return
		}
		if e.calls.keepRecord(k.id, k.rec) {
			kept.bytes('c', k.id[:])
		} else {
			k.rec.session.Return(false)
		}
	})
	_ = s.End(ctx, e.seal(kept))
}

// keepRecord keeps a record that came from elsewhere. It reports false where
// there are too many, or the call is here.
func (r *registry) keepRecord(id [16]byte, rec *record) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.released)+r.lapsing >= r.settings.MaxReleased || r.named[id] != nil || r.released[id] != nil {
		return false
	}
	delete(r.away, id)
	r.put(id, rec)
	if rec.left != nil {
		rec.left.backlog.fit(&r.settings)
	}
	return true
}

// bequest gives all records of released calls to the replicas that will go on
// with the calls; where one of them leaves as well, to the next. What nobody
// takes stays. It reports whether another replica stays, as far as is known.
func (e *Engine) bequest(ctx context.Context) (staying bool) {
	leaving := map[string]bool{e.settings.Replica: true}
	for {
		gone := func(id string) bool { return leaving[id] }
		heirs := slices.DeleteFunc(slices.Clone(e.settings.Bus.Staying()), gone)
		if len(heirs) == 0 {
			heirs = slices.DeleteFunc(slices.Clone(e.settings.Bus.Live()), gone)
		}
		byTaker := map[string][]*keepable{}
		for id, rec := range e.calls.records() {
			if taker := highest(id, heirs); taker != "" {
				byTaker[taker] = append(byTaker[taker], &keepable{id, e.upstreamOf(rec), rec})
			}
		}
		var mu sync.Mutex
		var giving sync.WaitGroup
		known := len(leaving)
		for taker, all := range byTaker {
			giving.Go(func() {
				for len(all) > 0 && ctx.Err() == nil {
					n := batchOf(all)
					if !e.leaveTo(ctx, taker, all[:n]) {
						mu.Lock()
						leaving[taker] = true
						mu.Unlock()
						return
					}
					all = all[n:]
				}
			})
		}
		giving.Wait()
		if len(leaving) == known {
			return len(heirs) > 0 || !e.settings.Bus.Confirmed()
		}
	}
}

// batchOf is how many of the records, of which there is one, go into one message.
func batchOf(all []*keepable) (n int) {
	for bytes := 0; n < min(len(all), keepBatch); n++ {
		if h := all[n].rec.left; h != nil {
			bytes += h.bytes
		}
		if n > 0 && bytes > maxHeirloom {
			break
		}
	}
	return n
}

// leaveTo gives records to a replica, and forgets those that it keeps. It
// reports false where that replica leaves as well.
func (e *Engine) leaveTo(ctx context.Context, taker string, batch []*keepable) bool {
	f := newFields(formKeep, 1024)
	for _, k := range batch {
		f = k.append(f)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*e.settings.Bus.Patience())
	defer cancel()
	form, kept, err := e.askForm(ctx, taker, KindKeep, f)
	for _, id := range kept {
		if rec, _ := e.calls.take(id); rec != nil {
			rec.session.Return(false)
			e.calls.left(id)
		}
	}
	return form != formAway && (err == nil || slices.Contains(e.settings.Bus.Live(), taker))
}

// records are the released calls' records.
func (r *registry) records() map[[16]byte]*record {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[[16]byte]*record, len(r.released))
	for id, rec := range r.released {
		all[id] = rec
	}
	return all
}

// upstreamOf returns the endpoint of a record's session.
func (e *Engine) upstreamOf(rec *record) *upstream {
	for _, up := range e.upstreams() {
		if up.Server == rec.session.Server() {
			return up
		}
	}
	return nil
}

// askFound asks a replica and returns the calls that it names.
func (e *Engine) askFound(ctx context.Context, replica string, kind Kind, f fields) (found [][16]byte, answered bool) {
	_, found, err := e.askForm(ctx, replica, kind, f)
	return found, err == nil
}

// askForm is askFound with the answer's form.
func (e *Engine) askForm(ctx context.Context, replica string, kind Kind, f fields) (form byte, found [][16]byte, err error) {
	stream, err := e.settings.Bus.Ask(ctx, replica, kind, e.ring.SealMessage(nil, f, contextRound))
	if err != nil {
		return 0, nil, err
	}
	defer stream.Close()
	stop := context.AfterFunc(ctx, stream.Close)
	defer stop()
	until, ok := ctx.Deadline()
	if !ok {
		until = time.Now().Add(e.settings.Bus.Patience())
	}
	message, err := stream.Recv(until)
	if err != nil {
		return 0, nil, err
	}
	plain, err := e.ring.OpenMessage(nil, message, contextEvent)
	if err != nil {
		return 0, nil, err
	}
	form, rest, err := readForm(plain)
	if err != nil {
		return 0, nil, err
	}
	if form != formFound && form != formAway {
		return 0, nil, errWire
	}
	ok = readFields(rest, func(f item) {
		if f.tag == 'c' && len(f.value) == 16 {
			found = append(found, [16]byte(f.value))
		}
	})
	if !ok {
		return form, found, errWire
	}
	return form, found, nil
}
