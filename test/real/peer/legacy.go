package peer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// LegacyVersion is the revision that [Legacy] asks for.
const LegacyVersion = "2025-11-25"

// transport is the way of a legacy session.
type transport interface {
	// request sends a request and hands each what comes for it, until each has
	// what it wants. A transport with one stream for all of a session hands it
	// everything that comes meanwhile.
	request(ctx context.Context, id int64, body any, each func(message) (more bool, err error)) error
	// tell sends a message that gets no response.
	tell(ctx context.Context, body any) error
	// listen hands push what comes for no request, once there is a session. It
	// returns when the transport hears.
	listen(ctx context.Context, push func(context.Context, message) error) error
	// close ends the session, and says what broke it before, if anything did.
	close(ctx context.Context) error
}

// Legacy is a client with a session.
type Legacy struct {
	way      transport
	identity Identity
	ids      atomic.Int64
	level    string // of log messages, as far as it was set
	hello    Outcome

	mu      sync.Mutex     // guards what follows
	tasks   map[string]any // answers that the server comes for
	asked   []Question
	log     []any // log messages beside a request
	filter  Filter
	updates chan Update // nil without a listener
	lost    error       // why an update could not be kept
}

// Connect opens a session over Streamable HTTP, with its GET stream.
func Connect(ctx context.Context, url string, identity Identity) (*Legacy, error) {
	return begin(ctx, newStreamable(url), identity)
}

// begin opens the session, or closes the transport.
func begin(ctx context.Context, way transport, identity Identity) (*Legacy, error) {
	c := &Legacy{way: way, identity: identity}
	if err := c.begin(ctx); err != nil {
		return nil, errors.Join(err, way.close(ctx))
	}
	return c, nil
}

func (c *Legacy) begin(ctx context.Context) (err error) {
	if c.hello, err = c.Call(ctx, Request{Method: "initialize", Params: map[string]any{
		"protocolVersion": LegacyVersion, "capabilities": withTasks(c.identity.Capabilities), "clientInfo": c.identity.info(),
	}}); err != nil {
		return err
	}
	if c.hello.Error != nil {
		return fmt.Errorf("initialize: error %v", c.hello.Error)
	}
	if err := c.way.tell(ctx, map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"}); err != nil {
		return err
	}
	return c.way.listen(ctx, c.push)
}

// Hello returns what the server said at initialize.
func (c *Legacy) Hello(context.Context) (Outcome, error) { return c.hello, nil }

// Asked returns all questions that the client was asked so far.
func (c *Legacy) Asked() []Question {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

// Close ends the session.
func (c *Legacy) Close(ctx context.Context) error { return c.way.close(ctx) }

// push takes what comes for no request.
func (c *Legacy) push(ctx context.Context, m message) error {
	params, err := Decode(m.Params)
	if err != nil {
		return err
	}
	if m.ID != nil {
		return c.answer(ctx, Request{}, m, nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.Method == "notifications/message":
		c.log = append(c.log, params)
	case c.updates != nil && c.filter.wants(m.Method, params):
		select {
		case c.updates <- Update{Method: m.Method, Params: params}:
		default:
			c.lost = fmt.Errorf("more than %d updates", maxUpdates)
		}
	}
	return nil
}

// answer answers a question of the server. o may be nil.
func (c *Legacy) answer(ctx context.Context, r Request, m message, o *Outcome) error {
	params, err := Decode(m.Params)
	if err != nil {
		return err
	}
	reply := map[string]any{"jsonrpc": "2.0", "id": m.ID}
	if m.Method == "ping" {
		reply["result"] = map[string]any{}
		return c.way.tell(ctx, reply)
	}
	if m.Method == "tasks/get" || m.Method == "tasks/result" {
		if result := c.serve(m.Method, params); result != nil {
			reply["result"] = result
		} else {
			reply["error"] = map[string]any{"code": -32602, "message": "Task not found"}
		}
		return c.way.tell(ctx, reply)
	}
	params, asTask := without(params, "task")
	q := question(m.Method, params)
	c.mu.Lock()
	c.asked = append(c.asked, q)
	c.mu.Unlock()
	if o != nil {
		o.Asked = append(o.Asked, q)
	}
	if answer, ok := c.identity.answer(r, q); ok && asTask != nil {
		c.mu.Lock()
		reply["result"] = c.keep(answer)
		c.mu.Unlock()
	} else if ok {
		reply["result"] = answer
	} else {
		reply["error"] = map[string]any{"code": -32601, "message": "no answer to " + m.Method}
	}
	return c.way.tell(ctx, reply)
}

// Call sends a request and answers what is asked until the response comes. Log
// messages that came for no request meanwhile count as the call's, where it
// has a LogLevel: nothing else tells whose they are.
func (c *Legacy) Call(ctx context.Context, r Request) (Outcome, error) {
	if r.LogLevel != "" && r.LogLevel != c.level {
		c.level = r.LogLevel
		params := map[string]any{"level": r.LogLevel}
		o, err := c.Call(ctx, Request{Method: "logging/setLevel", Params: params})
		if err == nil && o.Error != nil {
			err = fmt.Errorf("logging/setLevel: %v", o.Error)
		}
		if err != nil {
			return o, err
		}
	}
	c.mu.Lock()
	c.log = nil
	c.mu.Unlock()
	o := Outcome{Method: r.Method}
	id := c.ids.Add(1)
	var token any
	params := r.Params
	if r.Progress {
		token = "progress-" + strconv.FormatInt(id, 10)
		params = with(params, "_meta", map[string]any{metaProgress: token})
	}
	body := map[string]any{"jsonrpc": "2.0", "id": id, "method": r.Method}
	if params != nil {
		body["params"] = params
	}
	answered := false
	err := c.way.request(ctx, id, body, func(m message) (bool, error) {
		switch {
		case m.isResponse():
			answered = true
			return false, o.respond(m)
		case m.ID != nil:
			return true, c.answer(ctx, r, m, &o)
		}
		known, err := o.notify(m, token)
		if err == nil && !known {
			err = c.push(ctx, m)
		}
		return true, err
	})
	if err != nil {
		return o, fmt.Errorf("%s: %w", r.Method, err)
	}
	if !answered {
		return o, fmt.Errorf("%s: %w", r.Method, ErrEnded)
	}
	c.mu.Lock()
	o.Log = append(o.Log, c.log...)
	c.mu.Unlock()
	if r.LogLevel == "" {
		o.Log = nil
	}
	return o, nil
}

// Listen subscribes to the resources and hears what comes of them.
func (c *Legacy) Listen(ctx context.Context, f Filter) (*Listener, error) {
	updates := make(chan Update, maxUpdates)
	c.mu.Lock()
	c.filter, c.updates, c.lost = f, updates, nil
	c.mu.Unlock()
	each := func(method string) error {
		for _, uri := range f.Resources {
			o, err := c.Call(ctx, Request{Method: method, Params: map[string]any{"uri": uri}})
			if err == nil && o.Error != nil {
				err = fmt.Errorf("%s %s: %v", method, uri, o.Error)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := each("resources/subscribe"); err != nil {
		return nil, err
	}
	return &Listener{Updates: updates, close: func() error {
		err := each("resources/unsubscribe")
		c.mu.Lock()
		defer c.mu.Unlock()
		c.updates = nil
		return errors.Join(err, c.lost)
	}}, nil
}
