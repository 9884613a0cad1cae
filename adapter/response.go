package adapter

import (
	"bytes"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// response is an input response: the result that the server gets for its
// question, or, where the client has failed, the error.
type response struct {
	value  []byte // raw object
	failed bool
	ours   bool // no client has sent it
}

// responses are the input responses of a request.
type responses struct {
	raw     []byte // object, or nil
	wrapped bool   // Request.Wrapped
}

func (req *Request) responses() responses { return responses{req.InputResponses, req.Wrapped} }

// of returns the response under a key.
func (rs responses) of(key string) (r response, ok bool) {
	r.value = jsonrpc.Get(rs.raw, key)
	if rs.wrapped {
		whole := r.value
		if r.value = jsonrpc.Get(whole, "error"); r.value != nil {
			r.failed = true
		} else {
			r.value = jsonrpc.Get(whole, "result")
		}
	}
	return r, r.value != nil
}

// sum is a digest of a response that does not depend on how the JSON is written.
func (r response) sum() [16]byte {
	kind := "result"
	if r.failed {
		kind = "error"
	}
	return digestOf(kind, r.value)
}

// appendTo appends the message that answers a request of the server.
func (r response) appendTo(dst, id []byte) []byte {
	if !r.failed {
		return jsonrpc.AppendResult(dst, id, r.value)
	}
	e, _ := jsonrpc.ParseError(r.value) // it has been held to be one
	return jsonrpc.AppendError(dst, id, e)
}

// agree holds what a client sends of all that its call has had against the
// request state: what was taken once must stay as it was.
func (rs responses) agree(transcript []state.Answer) error {
	for i := range transcript {
		a := &transcript[i]
		if !a.Brought {
			continue
		}
		switch r, ok := rs.of(a.Key); {
		case !ok:
			return refuse(ReasonInvalidParams, "the answer to %q, which the call has had already, is missing: all are sent every time", a.Key)
		case r.failed != a.Failed, r.sum() != a.Sum:
			return refuse(ReasonInvalidParams, "the answer to %q is not the one that the call has had already", a.Key)
		}
	}
	return nil
}

// complete is a transcript with the values that a client brings with every
// round; without those that it has not brought.
func (rs responses) complete(transcript []state.Answer) []state.Answer {
	whole := make([]state.Answer, 0, len(transcript))
	for _, a := range transcript {
		if a.Brought && a.Value == nil {
			r, ok := rs.of(a.Key)
			if !ok || r.failed != a.Failed || r.sum() != a.Sum {
				continue
			}
			a.Value = bytes.Clone(r.value)
		}
		whole = append(whole, a)
	}
	return whole
}
