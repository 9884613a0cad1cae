package adapter

import (
	"slices"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// A legacy server wants a URL visited in two ways (spec 2025-11-25,
// client/elicitation): it asks in the middle of the call, in URL mode, or it ends
// the call with an error that names what is to be visited first. Either way it
// may say when the visit is over, by an elicitationId, which a modern client does
// not know: here that lets the call go on.

// visitTime is how long a round waits for the end of a visit that its client has
// consented to, before the client is asked once more.
const visitTime = 10 * time.Second

// visit turns the legacy error "URL elicitation required" into input requests.
// The server has ended the request, so that the retry sends it anew. mu is held.
func (c *call) visit(e *jsonrpc.Error) {
	if !c.eligible || !c.caps().URL {
		c.lost(missing(`{"elicitation":{"url":{}}}`))
		return
	}
	if c.lasting != nil && c.lasting.original == nil {
		c.lost(notKeptToSend())
		return
	}
	list := jsonrpc.Array(jsonrpc.Get(e.Data, "elicitations"))
	found, consented := 0, true
	for list.Next() && len(c.inputs) < c.engine.settings.MaxInputs {
		if !jsonrpc.IsString(jsonrpc.Get(list.Value(), "url")) {
			continue
		}
		found++
		id := elicitationID(list.Value())
		if i := slices.Index(c.visited, id); id != "" && i >= 0 {
			c.visited = slices.Delete(c.visited, i, i+1) // the visit was over before the error came
			continue
		}
		if c.wasOver(id) {
			continue
		}
		in := c.newInput(nil, mcp.MethodElicit, withURLMode(list.Value()))
		consented = consented && id != "" && slices.Contains(c.consented, id)
		c.inputs = append(c.inputs, in)
	}
	if found == 0 {
		c.lost(&Refusal{Reason: ReasonUpstreamReply, Detail: "the server wants a URL visited, but names none", MayHaveRun: true})
		return
	}
	if c.expects == nil {
		c.expects = c.x.Session()
		c.expects.Expect(c)
	}
	c.resend = true
	c.parkAt = time.Now()
	if consented {
		c.parkAt = c.parkAt.Add(visitTime)
	}
}

func withURLMode(params []byte) []byte {
	if jsonrpc.Get(params, "mode") != nil {
		return params
	}
	out := append([]byte(`{"mode":"url"`), ',')
	return append(jsonrpc.AppendMembers(out, params, nil), '}')
}

// elicitationID returns the id of a question in URL mode, or "".
func elicitationID(params []byte) string {
	id, _ := jsonrpc.Unquote(jsonrpc.Get(params, "elicitationId"))
	return id[:min(len(id), maxKey)]
}

// completed: the visit that an elicitationId names is over, and with it the
// question. mu is held.
func (c *call) completed(id string) {
	if id == "" || !c.sure() {
		return
	}
	mine := false
	c.inputs = slices.DeleteFunc(c.inputs, func(in *input) bool {
		if in.elicitation != id {
			return false
		}
		mine = true
		c.answerVisited(in)
		return true
	})
	switch {
	case mine:
		c.heard = time.Now()
		c.wake()
	case slices.Contains(c.consented, id) && !slices.Contains(c.visited, id):
		c.visited = append(c.visited, id)
	}
}

// answerVisited answers a question whose visit is over: who has done it has
// consented. mu is held.
func (c *call) answerVisited(in *input) {
	if in.id != nil {
		r := response{value: []byte(`{"action":"accept"}`), ours: true}
		c.record(in, r)
		c.give(in, r)
	}
}

// sendAnew sends the request again after a visit. mu is held.
func (c *call) sendAnew(req *Request) {
	for _, in := range c.inputs {
		r, _ := req.responses().of(in.Key)
		action, _ := jsonrpc.Unquote(jsonrpc.Get(r.value, "action"))
		if action == "accept" && in.elicitation != "" && !slices.Contains(c.consented, in.elicitation) && len(c.consented) < maxNames {
			c.consented = append(c.consented, in.elicitation)
		}
	}
	c.resend, c.resent, c.inputs = false, true, nil
	c.enter(starting)
	c.x, c.task, c.callID = nil, nil, 0
	c.msgID = c.up.Server.NextID()
	c.goLaunch(nil, c.appendRequest(legacy.Text(), req))
}

// sendAnewAlone is sendAnew for a lasting call, whose client does not send the
// request again. mu is held.
func (c *call) sendAnewAlone(req *Request) {
	if c.lasting.original == nil {
		c.terminate(notKeptToSend(), "its request is not at hand any more")
		return
	}
	if c.phase == parked {
		c.unparkAlone()
	}
	c.sendAnew(c.lasting.again(req))
}

func notKeptToSend() *Refusal {
	return &Refusal{
		Reason: ReasonCallLost, MayHaveRun: true,
		Detail: "the server wants the request again after a visit, and it is not at hand: it was larger than state.max_bytes, or is gone with the replica that held the call",
	}
}

// goOnUnasked goes on with a lasting call that waits for nobody any more: what was
// to be visited has been, or the server has taken its questions back. No round
// does it. mu is held.
func (c *call) goOnUnasked() {
	if c.lasting == nil || len(c.inputs) > 0 || c.x == nil || c.estate != nil || c.moving || !c.sure() {
		return
	}
	switch {
	case c.resend && (c.phase == parked || c.phase == running && len(c.rounds) == 0):
		c.sendAnewAlone(nil)
	case c.phase == parked:
		held := c.driver == byNobody
		c.goOnAnswered(held)
		if held {
			c.goDeliver(&delivery{x: c.x, session: c.x.Session(), creds: c.creds, launch: true}, nil)
		}
	}
}

// unexpect is the end of waiting for visits. mu is held.
func (c *call) unexpect() {
	if c.expects != nil {
		c.expects.Ignore(c)
		c.expects = nil
	}
	if c.lent != nil {
		c.lent.Return(false)
		c.lent = nil
	}
}
