package adapter

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// hop is a round's way to the replica that serves it. Its goroutine is the one
// that calls the round's Next.
type hop struct {
	engine *Engine
	ctx    context.Context // ends with Gone or Close
	cancel context.CancelFunc

	mu     sync.Mutex
	gone   bool
	stream Stream // to the replica that is being asked, or nil

	heard bool   // the replica that is being asked has said something
	told  uint64 // events that the client of a call that it follows was told
	owed  bool   // the replica that is being asked does not know of the last one yet
	plain []byte // the message that was read last
}

func (h *hop) begin(e *Engine) {
	h.engine = e
	h.ctx, h.cancel = context.WithCancel(e.ctx)
}

// ask opens a stream to a replica with a message about a round.
func (h *hop) ask(replica string, message []byte) error {
	body := h.engine.ring.SealMessage(nil, message, contextRound)
	stream, err := h.engine.settings.Bus.Ask(h.ctx, replica, KindRound, body)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		stream.Close()
		return ErrGone
	}
	h.stream, h.heard = stream, false
	h.told, h.owed = 0, false
	return nil
}

// give notes an event that the client is to be told now.
func (h *hop) give() { h.told, h.owed = h.told+1, true }

// confirm tells the other replica that the client was told what it was given.
func (h *hop) confirm() {
	h.mu.Lock()
	stream := h.stream
	h.mu.Unlock()
	if stream != nil && h.owed {
		h.say(stream, false)
	}
}

// say tells the other replica so; last, that nothing more is to be told.
func (h *hop) say(stream Stream, last bool) {
	h.owed = false
	f := newFields(formTold, 0)
	f.number('n', h.told)
	f.flag('e', last)
	_ = stream.Send(h.ctx, h.engine.ring.SealMessage(nil, f, contextRound)) // else it is told again
}

// open reads what the other replica has sent.
func (h *hop) open(message []byte) (Event, error) {
	plain, err := h.engine.ring.OpenMessage(h.plain[:0], message, contextEvent)
	if err != nil {
		if errors.Is(err, state.ErrUnknownKey) {
			h.engine.unknownKey()
		}
		return Event{}, errWire
	}
	h.plain = plain
	return readEvent(plain)
}

// misunderstood logs that a replica's answer is of no use.
func (h *hop) misunderstood(peer string) {
	h.engine.noisy.Warn().Str("peer", peer).Msg("answer of another replica is not understood: is it of another version, or has it other state keys?")
}

// drop forgets a stream that is of no more use. Closing it would say that the
// client has gone, which cancels the call.
func (h *hop) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stream != nil && !h.gone {
		h.stream.Abandon()
		h.stream = nil
	}
}

// over says why the round's context has ended.
func (h *hop) over() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return ErrGone
	}
	return stopping()
}

// leave ends the stream with the round: the other replica is told that nobody
// waits for its answer, unless it is this one that stops, and not the client.
func (h *hop) leave() {
	h.cancel()
	h.mu.Lock()
	stream, gone := h.stream, h.gone
	h.mu.Unlock()
	switch {
	case stream == nil:
	case !gone && h.engine.ctx.Err() != nil:
		stream.Abandon()
	default:
		stream.Close()
	}
}

// pause waits until at. It returns ErrDeadline if that is after until.
func (h *hop) pause(at, until time.Time) error {
	if time.Until(at) <= 0 {
		return nil
	}
	late := at.After(until)
	if late {
		at = until
	}
	if !wait.Pause(h.ctx, time.Until(at)) {
		return h.over()
	}
	if late {
		return ErrDeadline
	}
	return nil
}

func tooLargeToSend() error {
	return &Refusal{Reason: ReasonUpstreamReply, MayHaveRun: true, Detail: "the answer is larger than what replicas send each other"}
}
