package adapter

import (
	"bytes"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// transcribe takes the open inputs off the call that a retry answers, and puts
// the answers into the transcript.
func (c *call) transcribe(brought responses) []answer {
	var found []answer
	kept := c.inputs[:0]
	for _, in := range c.inputs {
		r, ok := brought.of(in.Key)
		if !ok || (in.Params != nil || r.failed) && !c.fits(in, r) || in.Params == nil && !jsonrpc.IsObject(r.value) {
			kept = append(kept, in)
			continue
		}
		c.record(in, r)
		r.value = bytes.Clone(r.value)
		found = append(found, answer{in: in, response: r})
	}
	c.inputs = kept
	return found
}

// record puts an answer into the transcript. mu is held.
func (c *call) record(in *input, r response) {
	brought := c.carried != nil && !r.ours // it is held against what comes with the next round
	if !brought && c.x != nil && !c.mayReplay(c.x.Session()) {
		c.cut = true // it will never be asked again
		return
	}
	kind, ok := state.KindOf(in.Method)
	if !ok || len(c.transcript) >= state.MaxTranscript {
		c.cut = true
		return
	}
	a := state.Answer{Key: in.Key, Method: kind, Digest: in.questionDigest(), Hinted: in.hinted, Failed: r.failed, Brought: brought}
	if brought {
		a.Sum = r.sum()
	} else {
		a.Value = bytes.Clone(r.value)
	}
	if c.transcriptBytes += sizeOf([]state.Answer{a}); c.transcriptBytes > c.engine.settings.MaxState {
		c.cut, c.transcript = true, nil // it could not be sealed into a request state again
		return
	}
	if !c.cut {
		c.transcript = append(c.transcript, a)
	}
}

func sizeOf(transcript []state.Answer) (n int) {
	for _, a := range transcript {
		n += len(a.Key) + len(a.Value)
		if a.Brought {
			n += len(a.Sum) - len(a.Value)
		}
	}
	return n
}

// answerAgain answers a question of a replay with what the transcript has for
// it: the same method and the same params. Yes to "delete A?" must never
// answer "delete B?". mu is held.
func (c *call) answerAgain(in *input) bool {
	if len(c.known) == 0 {
		return false
	}
	digest := in.questionDigest()
	for i, a := range c.known {
		if a.Digest != digest || a.Method.Method() != in.Method {
			continue
		}
		c.known = append(c.known[:i:i], c.known[i+1:]...)
		if a.Brought {
			in.Key = a.Key // under which it is brought
		}
		r := response{value: a.Value, failed: a.Failed, ours: !a.Brought}
		c.record(in, r)
		c.give(in, r)
		return true
	}
	return false
}
