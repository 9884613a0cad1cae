package legacy

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// forward passes a message on that names no call of this replica: its id's
// prefix says whose it is. Where that replica is gone, or has let the call go,
// it belongs to whichever has taken the call over.
func (s *Session) forward(id []byte, m *jsonrpc.Message) {
	if s.server.settings.Peers == nil || !s.reach() {
		return
	}
	p := parcel{kind: tellMessage, id: s.id}
	owner, ok := ownerOf(id)
	switch {
	case !ok:
		return
	case owner == s.server.settings.IDPrefix:
		s.mu.Lock()
		let := s.let
		s.mu.Unlock()
		if !let {
			return // it is over
		}
		owner = ""
	case !slices.Contains(s.server.live(), owner):
		owner = ""
	}
	p.raw, p.flag = appendMessage(nil, m), owner == ""
	switch {
	case m.IsResponse():
		s.server.deliver(owner, &p)
	case owner != "":
		s.server.tell(owner, &p)
	default:
		s.server.tellAll(&p)
	}
}

// deliveries bounds the responses of one Server that are on their way to peers.
const deliveries = 1024

// Attempts to give a response to a peer, and what is between them.
const (
	deliverTimes = 8
	deliverPause = 250 * time.Millisecond
)

// deliver gives a response to the replica whose call it ends, or to all where
// none is named. The server does not say it twice, so that it goes by a question
// that is asked until it is answered.
func (s *Server) deliver(owner string, p *parcel) {
	if s.delivering.Add(1) > deliveries {
		s.delivering.Add(-1)
		s.undelivered(owner, "too many are on their way")
		return
	}
	s.background(func() {
		defer s.delivering.Add(-1)
		pause := time.NewTimer(0)
		defer pause.Stop()
		for range deliverTimes {
			select {
			case <-pause.C:
			case <-s.ctx.Done():
				return
			}
			if owner != "" && !slices.Contains(s.live(), owner) {
				owner, p.flag = "", true // whoever has taken the call over
			}
			if s.offer(owner, p) {
				return
			}
			pause.Reset(deliverPause)
		}
		s.undelivered(owner, "no answer")
	})
}

// offer asks a peer, or all, to take a message. It reports whether each has.
func (s *Server) offer(owner string, p *parcel) bool {
	question := &parcel{kind: askHeed, raw: p.append(nil)}
	ctx, cancel := context.WithTimeout(s.ctx, askTime)
	defer cancel()
	if owner == "" {
		_, complete := s.askEach(ctx, question)
		return complete
	}
	answer, err := s.ask(ctx, owner, question)
	return err == nil && answer.kind == sayYes
}

func (s *Server) undelivered(owner, why string) {
	s.noisy.Warn().Str("upstream", s.settings.Name).Str("replica", owner).Str("why", why).
		Msg("response of the server for another replica's call could not be delivered")
}

// ownerOf returns the replica that has made a request id.
func ownerOf(id []byte) (string, bool) {
	dash := bytes.LastIndexByte(id, '-')
	if dash < 2 || id[0] != '"' {
		return "", false
	}
	return string(id[1:dash]), true
}

// hearMessage routes what came on a peer's stream of this session.
func (s *Session) hearMessage(p *parcel) {
	m, single, err := jsonrpc.ParseServerOne(p.raw, s.server.settings.MaxDepth)
	if err != nil || !single {
		s.server.misunderstood("", errParcel)
		return
	}
	if p.request != "" {
		if x := s.find(jsonrpc.AppendQuote(nil, p.request)); x != nil {
			x.sink.Receive(&m, false)
		} else if m.IsRequest() { // the call has ended meanwhile
			s.attributeLater(nil, &m)
		}
		return
	}
	id := m.ID
	if !m.IsResponse() {
		if m.Method != mcp.NotifyProgress {
			return
		}
		id = jsonrpc.Get(m.Params, mcp.MetaProgressToken)
	}
	switch x := s.find(id); {
	case x == nil:
		if owner, _ := ownerOf(id); owner == s.server.settings.IDPrefix && !p.flag {
			s.forward(id, &m) // let go here, and taken over elsewhere
		}
	case m.IsResponse():
		x.respond(&m, false)
		x.Abort()
	default:
		x.sink.Receive(&m, false)
	}
}

// hearNote routes a notification that came on a peer's stream of this session.
func (s *Session) hearNote(p *parcel) {
	m, single, err := jsonrpc.ParseServerOne(p.raw, s.server.settings.MaxDepth)
	if err != nil || !single || !m.IsNotification() {
		s.server.misunderstood("", errParcel)
		return
	}
	switch m.Method {
	case mcp.NotifyCancelled:
		s.withdrawnHere(&m)
	case mcp.NotifyToolsChanged:
		s.entry.forgetTools()
		s.notify(&m)
	case mcp.NotifyPromptsChanged, mcp.NotifyResourcesChanged, mcp.NotifyResourceUpdated:
		s.notify(&m)
	case mcp.NotifyTaskStatus, mcp.NotifyElicitationCompleted:
		s.spread(&m)
	}
}

// tellNote tells the peers of a notification.
func (s *Session) tellNote(m *jsonrpc.Message) {
	if s.reach() {
		s.server.tellAll(&parcel{kind: tellNote, id: s.id, raw: appendMessage(nil, m)})
	}
}

// attributeAmong attributes an input request where calls of other replicas are
// on the session too: to the one call in all that it can be for.
func (s *Session) attributeAmong(x *Exchange, m *jsonrpc.Message) {
	ctx, cancel := context.WithTimeout(s.server.ctx, askTime)
	defer cancel()
	replies := s.server.askAll(ctx, &parcel{kind: askWho, id: s.id, flag: true})
	only, candidates := s.candidate(true, x)
	there := elected(replies)
	late := s.asksLate(m.Method) || m.Method != mcp.MethodRootsList && slices.ContainsFunc(replies, func(r reply) bool { return r.kind == sayWho && r.flag })
	s.decide(x, m, only, there, candidates+total(replies), late)
}

// logAmong gives a log message on the GET stream to the one call in all that it
// can be about.
func (s *Session) logAmong(m *jsonrpc.Message) {
	if _, n := s.candidate(false, nil); n > 1 {
		return
	}
	replies := s.server.askAll(s.server.ctx, &parcel{kind: askWho, id: s.id})
	only, n := s.candidate(false, nil)
	if n+total(replies) != 1 {
		return
	}
	if only != nil {
		only.sink.Receive(m, false)
		return
	}
	s.pass(elected(replies), m)
}

// pass gives a message to a call of a peer, and returns once it is there: what
// follows on this stream must not come before it.
func (s *Session) pass(to *reply, m *jsonrpc.Message) {
	if to == nil {
		return
	}
	p := parcel{kind: tellMessage, id: s.id, request: to.request, raw: appendMessage(nil, m)}
	ctx, cancel := context.WithTimeout(s.server.ctx, askTime)
	defer cancel()
	if _, err := s.server.ask(ctx, to.from, &parcel{kind: askHeed, raw: p.append(nil)}); err != nil {
		s.server.log.Debug().Err(err).Str("upstream", s.server.settings.Name).Msg("message for another replica's call not passed on")
	}
}

func total(replies []reply) (n int) {
	for _, r := range replies {
		if r.kind == sayWho {
			n += int(r.number)
		}
	}
	return n
}

// elected returns the reply that names the one call.
func elected(replies []reply) *reply {
	for i := range replies {
		if replies[i].kind == sayWho && replies[i].number == 1 && replies[i].request != "" {
			return &replies[i]
		}
	}
	return nil
}

// laterAttributions bounds the input requests of one Server whose calls are
// looked for while the driver of the stream they came on goes on.
const laterAttributions = 64

// attributeLater is attributeAmong for a message that came on a call's own
// stream, whose driver must not wait.
func (s *Session) attributeLater(x *Exchange, m *jsonrpc.Message) {
	if s.server.attributing.Add(1) > laterAttributions {
		s.server.attributing.Add(-1)
		s.refuse(m, jsonrpc.CodeInternal, "too many requests wait for a call of the client")
		return
	}
	own := &jsonrpc.Message{ID: bytes.Clone(m.ID), Method: m.Method, Params: bytes.Clone(m.Params)}
	s.server.background(func() {
		defer s.server.attributing.Add(-1)
		s.attributeAmong(x, own)
	})
}

// keepOrphan keeps an input request for the session's next eligible call, on
// whatever replica that comes. It reports false where one is here already. Where
// principals share the session it keeps none: the next call may be another's.
func (s *Session) keepOrphan(x *Exchange, m *jsonrpc.Message) bool {
	if s.entry.key.Shared {
		s.refuse(m, jsonrpc.CodeInternal, "the call that the request could belong to has ended")
		return true
	}
	s.mu.Lock()
	for _, y := range s.calls {
		if y.eligible && y != x {
			s.mu.Unlock()
			return false
		}
	}
	kept := len(s.orphans) < s.server.settings.MaxOrphans
	if kept {
		s.orphans = append(s.orphans, Orphan{
			ID: bytes.Clone(m.ID), Method: m.Method, Params: bytes.Clone(m.Params),
			until: time.Now().Add(s.server.settings.OrphanTTL),
		})
	}
	n := len(s.orphans)
	s.mu.Unlock()
	if !kept {
		s.refuse(m, jsonrpc.CodeInternal, "too many requests wait for a call of the client")
		return true
	}
	s.tellOrphans(n)
	return true
}

// tellOrphans tells the peers how many questions wait here.
func (s *Session) tellOrphans(n int) {
	if s.reach() {
		s.server.tellAll(&parcel{kind: tellOrphans, id: s.id, number: uint64(n)})
	}
}

// noteOrphans remembers that questions wait at a peer.
func (s *Session) noteOrphans(from string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == 0 {
		delete(s.noted, from)
		return
	}
	s.note(from)
	for _, y := range s.calls {
		if y.eligible { // it came when the replica had asked already
			s.server.background(s.fetchForCall)
			return
		}
	}
}

// note remembers that questions wait at a peer, or may. mu is held.
func (s *Session) note(from string) {
	if s.noted == nil {
		s.noted = make(map[string]struct{})
	}
	s.noted[from] = struct{}{}
}

// addOrphans keeps questions that a peer kept. mu is held.
func (s *Session) addOrphans(list []Orphan, until time.Time) {
	for _, o := range list {
		s.orphans = append(s.orphans, Orphan{ID: bytes.Clone(o.ID), Method: o.Method, Params: bytes.Clone(o.Params), until: until})
	}
}

// packOrphans takes the waiting questions along to where the session goes.
func (s *Session) packOrphans() []Orphan {
	s.mu.Lock()
	defer s.mu.Unlock()
	packed := s.orphans
	s.orphans = nil
	return packed
}

// unpackOrphans keeps questions that waited elsewhere, or could not be handed
// over.
func (s *Session) unpackOrphans(packed []Orphan) {
	if len(packed) == 0 {
		return
	}
	until := time.Now().Add(s.server.settings.OrphanTTL)
	s.mu.Lock()
	s.addOrphans(packed, until)
	n, called := len(s.orphans), false
	for _, y := range s.calls {
		called = called || y.eligible
	}
	s.mu.Unlock()
	s.tellOrphans(n)
	if called {
		s.server.background(s.fetchForCall)
	}
}

// fetchForCall brings waiting questions here for a call that is in flight.
func (s *Session) fetchForCall() {
	s.FetchOrphans(s.server.ctx)
	for _, o := range s.takeOrphans() {
		s.attributeAmong(nil, &jsonrpc.Message{ID: o.ID, Method: o.Method, Params: o.Params})
	}
}

// FetchOrphans brings the questions here that wait at other replicas for an
// eligible call, so that TakeOrphans need not.
func (s *Session) FetchOrphans(ctx context.Context) {
	s.mu.Lock()
	noted := make([]string, 0, len(s.noted))
	for replica := range s.noted {
		noted = append(noted, replica)
	}
	clear(s.noted)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for _, replica := range noted {
		answer, err := s.server.ask(ctx, replica, &parcel{kind: askOrphans, id: s.id})
		if err != nil || answer.kind != sayOrphans {
			continue // it is gone, or they are: who keeps them refuses them in time
		}
		until := time.Now().Add(s.server.settings.OrphanTTL)
		s.mu.Lock()
		s.addOrphans(answer.orphans, until)
		s.mu.Unlock()
	}
}
