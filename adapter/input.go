package adapter

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/adapter/wait"
)

// input is an input request that waits for its answer.
type input struct {
	Input
	id     []byte // raw JSON-RPC id, or nil where the server has ended the request
	hinted bool   // the server named the key
	told   bool   // a client was asked it, with the newest request state
	before string // the event id from which the stream has it once more, "" where none is known

	elicitation string   // the server's id for a visit to a URL, or ""
	digest      [16]byte // of method and params; zero until it is needed
}

// questionDigest tells whether a question that comes again is the same.
func (in *input) questionDigest() [16]byte {
	if in.digest == ([16]byte{}) {
		in.digest = digestOf(in.Method, in.Params)
	}
	return in.digest
}

// caps returns what the client can be asked.
func (c *call) caps() *mcp.Capabilities { return c.key.Caps }

// ask takes an input request of the server. mu is held.
func (c *call) ask(id []byte, method string, params []byte) {
	c.resent = false
	c.heard = time.Now()
	if lacks := c.caps().Missing(method, params); lacks != "" {
		c.reply(jsonrpc.AppendError(legacy.Text(), id, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the client did not declare the capability for " + method}))
		c.terminate(missing(lacks), "the client lacks a capability")
		return
	}
	if len(c.inputs) >= c.engine.settings.MaxInputs || len(c.names) >= maxNames {
		c.refuse(id, "this call has asked too many questions")
		return
	}
	in := c.newInput(id, method, params)
	in.before = c.x.Before()
	c.askedAsTask(in, params)
	if c.sure() && (c.answerAgain(in) || in.hinted && c.answerEarly(in) || c.overBefore(in)) {
		return
	}
	now := time.Now()
	if c.phase == parked {
		// It goes out with the next round; a sibling that came this soon means
		// that waiting for siblings pays.
		if now.Sub(c.parkedAt) < lateSibling {
			c.gathering().late()
		}
		c.inputs = append(c.inputs, in)
		return
	}
	if len(c.inputs) == 0 {
		c.parkAt = now.Add(c.gathering().wait(c.engine.settings.Gather))
	}
	c.inputs = append(c.inputs, in)
}

// newInput makes an input of what the server asks, with its key, in the form
// that a modern client knows.
func (c *call) newInput(id []byte, method string, params []byte) *input {
	in := &input{id: bytes.Clone(id)}
	in.Method = method
	hint, hinted := jsonrpc.Unquote(jsonrpc.Get(jsonrpc.Get(params, "_meta"), mcp.MetaKeyHint))
	in.hinted = hinted && hint != "" && len(hint) <= maxKey
	if in.hinted {
		in.Key = c.uniqueKey(hint)
	} else {
		in.Key = c.ordinalKey(method)
	}
	in.Params = modernParams(params)
	if method == mcp.MethodElicit {
		in.elicitation = elicitationID(params)
	}
	return in
}

const (
	maxKey   = 128  // bytes of a hinted key
	maxNames = 1024 // hinted keys of one call: each is remembered to its end
)

func (c *call) ordinalKey(method string) string {
	kind := "elicitation"
	n := &c.asked[0]
	switch method {
	case mcp.MethodCreateMessage:
		kind, n = "sampling", &c.asked[1]
	case mcp.MethodRootsList:
		kind, n = "roots", &c.asked[2]
	}
	for {
		*n++
		key := kind + "-" + strconv.Itoa(*n)
		if !slices.Contains(c.names, key) {
			return key
		}
	}
}

// uniqueKey: a hint that was used already in the call gets a suffix.
func (c *call) uniqueKey(hint string) string {
	key, n := hint, 2
	if c.lasting != nil && c.lasting.behind > 0 {
		n = c.lasting.behind
		key = hint + "-" + strconv.Itoa(n)
	}
	for ; slices.Contains(c.names, key) || c.wasOrdinal(key); n++ {
		key = hint + "-" + strconv.Itoa(n)
	}
	c.names = append(c.names, key)
	return key
}

// wasOrdinal reports whether an input without a hint got the key. Of those
// only the number is kept.
func (c *call) wasOrdinal(key string) bool {
	for i, kind := range [...]string{"elicitation-", "sampling-", "roots-"} {
		if rest, ok := strings.CutPrefix(key, kind); ok {
			n, err := strconv.Atoi(rest)
			return err == nil && n >= 1 && n <= c.asked[i]
		}
	}
	return false
}

// modernParams leaves out what a modern client does not know: the task
// parameter, elicitationId, and the keys of _meta that only make sense towards
// a legacy client. The rest stays as it is.
func modernParams(params []byte) []byte {
	if !jsonrpc.IsObject(params) {
		return []byte("{}")
	}
	out := append(make([]byte, 0, len(params)+2), '{')
	out = jsonrpc.AppendMembers(out, params, isLegacyParam)
	if meta := jsonrpc.Get(params, "_meta"); jsonrpc.IsObject(meta) {
		if kept := jsonrpc.AppendMembers(nil, meta, isLegacyMeta); len(kept) > 0 {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(append(out, `"_meta":{`...), kept...), '}')
		}
	}
	return append(out, '}')
}

func isLegacyParam(name []byte) bool {
	switch string(name) {
	case "task", "elicitationId", "_meta":
		return true
	}
	return false
}

func isLegacyMeta(name []byte) bool {
	switch string(name) {
	case mcp.MetaKeyHint, mcp.MetaProgressToken, mcp.MetaRelatedTask:
		return true
	}
	return false
}

// answerEarly answers a hinted input with what the first request brought.
func (c *call) answerEarly(in *input) bool {
	r, ok := c.early.of(in.Key)
	if !ok || !c.fits(in, r) {
		return false
	}
	c.record(in, r)
	c.give(in, r)
	return true
}

// give answers a question with what was known beforehand, in the background. mu
// is held.
func (c *call) give(in *input, r response) {
	if c.x == nil {
		return
	}
	text := c.answerText(in, r)
	if text == nil { // the server comes for it
		return
	}
	a := answer{in: in, text: text, response: response{failed: r.failed}}
	d := &delivery{x: c.x, session: c.x.Session(), answers: []answer{a}, creds: c.creds}
	c.posting++
	c.engine.wg.Add(1)
	go func() {
		defer c.engine.wg.Done()
		defer c.posted()
		c.deliverAll(c.engine.ctx, d, nil)
	}()
}

// sure reports whether the server may be told something: whether no other
// replica can have the call. mu is held.
func (c *call) sure() bool { return !c.handed || c.engine.confirmed() }

// assured waits until the server may be told something.
func (c *call) assured(ctx context.Context) error {
	c.mu.Lock()
	sure := c.sure()
	c.mu.Unlock()
	if sure {
		return nil
	}
	if err := c.engine.sure(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.elsewhere {
		return errAway
	}
	return nil
}

// Reopen waits until no other replica can have the call. It is part of
// legacy.Owner.
func (c *call) Reopen(ctx context.Context) bool {
	for {
		c.mu.Lock()
		over, sure := c.phase == done, c.sure()
		c.mu.Unlock()
		switch {
		case over:
			return false
		case sure:
			return true
		case !wait.Pause(ctx, leasePoll):
			return false
		}
	}
}

// reply posts a text to the server in the background: where the call may be
// another replica's, once it is known that it is not. mu is held.
func (c *call) reply(text []byte) {
	switch {
	case c.x == nil:
		legacy.FreeText(text)
	case c.sure():
		c.x.Session().PostLater(c.creds, text)
	default:
		s, creds := c.x.Session(), c.creds
		c.engine.wg.Add(1)
		go func() {
			defer c.engine.wg.Done()
			if c.engine.sure(c.engine.ctx) != nil {
				legacy.FreeText(text)
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.elsewhere {
				legacy.FreeText(text)
				return
			}
			s.PostLater(creds, text)
		}()
	}
}

// refuse answers an input request with an error.
func (c *call) refuse(id []byte, why string) {
	c.reply(jsonrpc.AppendError(legacy.Text(), id, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: why}))
}

// refuseInputs tells the server that its questions stay unanswered: a cancel
// for elicitations, an error for the rest.
func (c *call) refuseInputs(why string) {
	for _, in := range c.inputs {
		switch {
		case in.id == nil:
		case in.own() != "":
			c.dropTask(in, why)
		case in.Method == mcp.MethodElicit:
			c.reply(jsonrpc.AppendResult(legacy.Text(), in.id, []byte(`{"action":"cancel"}`)))
		default:
			c.refuse(in.id, why)
		}
	}
	c.inputs = nil
}
