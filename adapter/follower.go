package adapter

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// Rounds about a call that its client follows, and the time that it may be away.

// byFollower reports whether a round is about a call that its client follows.
func byFollower(method string) bool {
	switch method {
	case mcp.MethodResume, mcp.MethodStatus, mcp.MethodAnswer, mcp.MethodCancel:
		return true
	}
	return false
}

// idDigest binds a handle to the id of the request that it is of.
func idDigest(id []byte) [16]byte {
	return digestOf(mcp.MethodResume, append(append([]byte(`{"requestId":`), id...), '}'))
}

// handleOf reports whether a handle is one for a method. A posted response has no
// id of the original request beside its own.
func handleOf(t *state.Token, req *Request) bool {
	return (t.Away != 0) == byFollower(req.Method) &&
		(t.Away == 0 || req.Method == mcp.MethodAnswer || t.Request == idDigest(req.Original))
}

// waitForClient begins to wait for the client, or begins anew. mu is held.
func (c *call) waitForClient() {
	f := c.lasting.following
	if f.round != nil {
		return
	}
	f.awayAt = time.Now().Add(f.away)
	if c.phase == done {
		c.engine.calls.prolong(c, f.awayAt)
		return
	}
	c.arm()
}

// overdue ends a call whose client has been away for too long. mu is held.
func (c *call) overdue(now time.Time) bool {
	l := c.lasting
	if l == nil || l.following == nil || l.following.awayAt.IsZero() || now.Before(l.following.awayAt) {
		return false
	}
	if !c.engine.confirmed() { // it may be another replica's, where the client is
		l.following.awayAt = now.Add(leasePoll)
		return false
	}
	c.engine.metrics.expired()
	c.terminate(&Refusal{Reason: ReasonStateExpired, Detail: "the client did not come back within maxWait, and the request was cancelled", MayHaveRun: true}, "the client did not come back")
	return true
}

// shortHandle finds the call for an answer, while it is here: it is part of the id
// of each question, and has nothing to go on with elsewhere. mu is held.
func (c *call) shortHandle() []byte {
	l := c.lasting
	if l.following.short == nil {
		l.following.short = c.engine.ring.Seal(nil, c.plainHandle(l))
	}
	return l.following.short
}

// attendFollower serves a round about a call that its client follows. mu is held.
func (c *call) attendFollower(req *Request, r *callRound) error {
	c.lasting.following.hold()
	if req.Method == mcp.MethodResume {
		if c.phase == done && c.lasting.cancelled {
			return c.err // there is no stream to go on with, and the client is to know
		}
		c.followBy(r)
		return nil
	}
	if c.unattended() && (len(c.inputs) == 0 || req.Method != mcp.MethodAnswer) {
		c.goOnAlone(req)
	}
	c.waitForClient()
	switch req.Method {
	case mcp.MethodStatus:
		r.outcome = &Outcome{Method: req.Method, Standing: c.standing()}
		return nil
	case mcp.MethodCancel:
		c.cancelLasting(req)
	case mcp.MethodAnswer:
		if err := c.answered(req); err != nil {
			return err
		}
	}
	r.outcome = acknowledged(req.Method)
	return nil
}

// hold notes that the client has the handle, which is told no more. mu is held.
func (f *following) hold() {
	f.held = true
	f.backlog.withdraw(pending.isHandle)
}

// answered takes the response to a question. One that comes twice has been taken.
// mu is held.
func (c *call) answered(req *Request) error {
	if c.phase == done || c.brings(req.InputResponses) {
		return c.update(req)
	}
	for o := jsonrpc.Object(req.InputResponses); o.Next(); {
		if !c.gave(string(o.Name())) {
			return notAsked()
		}
	}
	return nil
}

func notAsked() error {
	return refuse(ReasonStateStale, "the request that this responds to is gone with the replica that sent it: resume the original request, and it comes again if it is open")
}

// gave reports whether a question of this replica had the key. mu is held.
func (c *call) gave(key string) bool {
	if slices.Contains(c.names, key) {
		return true
	}
	for i, kind := range [...]string{"elicitation-", "sampling-", "roots-"} {
		if rest, ok := strings.CutPrefix(key, kind); ok {
			n, err := strconv.Atoi(rest)
			return err == nil && n > c.lasting.behind && n <= c.asked[i]
		}
	}
	return false
}

// prolong keeps a done call's outcome for longer. call.mu is held.
func (r *registry) prolong(c *call, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.keptAt != nil {
		c.keptUntil = until
	}
}
