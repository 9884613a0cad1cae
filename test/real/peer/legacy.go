package peer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// LegacyVersion is the revision that [Legacy] speaks.
const LegacyVersion = "2025-11-25"

// Legacy is a client with a session.
type Legacy struct {
	url      string
	identity Identity
	http     *http.Client
	ids      atomic.Int64
	session  string
	level    string // of log messages, as far as it was set
	hello    Outcome
	cancel   context.CancelFunc // ends the GET stream
	ended    chan error         // how the GET stream ended

	mu      sync.Mutex     // guards what follows
	tasks   map[string]any // answers that the server comes for
	asked   []Question
	log     []any // log messages of the GET stream
	filter  Filter
	updates chan Update // nil without a listener
	lost    error       // why an update could not be kept
}

// Connect opens a session and its GET stream.
func Connect(ctx context.Context, url string, identity Identity) (*Legacy, error) {
	c := &Legacy{url: url, identity: identity, http: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	var err error
	if c.hello, err = c.Call(ctx, Request{Method: "initialize", Params: map[string]any{
		"protocolVersion": LegacyVersion, "capabilities": withTasks(identity.Capabilities), "clientInfo": identity.info(),
	}}); err != nil {
		return nil, err
	}
	if c.hello.Error != nil || c.session == "" {
		return nil, fmt.Errorf("initialize: error %v, session %q", c.hello.Error, c.session)
	}
	if err := c.tell(ctx, map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"}); err != nil {
		return nil, err
	}
	return c, c.open(ctx)
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
func (c *Legacy) Close(ctx context.Context) error {
	c.cancel()
	err := <-c.ended
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	request, failure := http.NewRequestWithContext(ctx, http.MethodDelete, c.url, nil)
	if failure != nil {
		return errors.Join(err, failure)
	}
	c.head(request)
	response, failure := c.http.Do(request)
	if failure != nil {
		return errors.Join(err, failure)
	}
	failure = response.Body.Close()
	c.http.CloseIdleConnections()
	return errors.Join(err, failure)
}

func (c *Legacy) head(request *http.Request) {
	if c.session != "" {
		request.Header.Set("Mcp-Session-Id", c.session)
		request.Header.Set("MCP-Protocol-Version", LegacyVersion)
	}
}

// open opens the GET stream and waits until the server has accepted it.
func (c *Legacy) open(ctx context.Context) error {
	ctx, c.cancel = context.WithCancel(ctx)
	c.ended = make(chan error, 1)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "text/event-stream")
	c.head(request)
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("open the GET stream: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return fmt.Errorf("open the GET stream: HTTP %d", response.StatusCode)
	}
	go func() { // ends with ctx, which Close cancels and waits
		err := events(response.Body, func(m message) (bool, error) { return true, c.push(ctx, m) })
		_ = response.Body.Close()
		if err == nil {
			err = ErrEnded
		}
		c.ended <- fmt.Errorf("the GET stream: %w", err)
	}()
	return nil
}

// push takes what comes on the GET stream.
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

// answer answers a question of the server with a POST of its own. o may be nil.
func (c *Legacy) answer(ctx context.Context, r Request, m message, o *Outcome) error {
	params, err := Decode(m.Params)
	if err != nil {
		return err
	}
	reply := map[string]any{"jsonrpc": "2.0", "id": m.ID}
	if m.Method == "ping" {
		reply["result"] = map[string]any{}
		return c.tell(ctx, reply)
	}
	if m.Method == "tasks/get" || m.Method == "tasks/result" {
		if result := c.serve(m.Method, params); result != nil {
			reply["result"] = result
		} else {
			reply["error"] = map[string]any{"code": -32602, "message": "Task not found"}
		}
		return c.tell(ctx, reply)
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
	return c.tell(ctx, reply)
}

// tell posts a message that gets no response.
func (c *Legacy) tell(ctx context.Context, body any) error {
	request, err := post(ctx, c.url, body)
	if err != nil {
		return err
	}
	c.head(request)
	_, err = send(c.http, request, func(m message) (bool, error) {
		return false, fmt.Errorf("an answer to what is no request: %s%s", m.Result, m.Error)
	})
	return err
}

// Call sends a request and answers what is asked until the response comes. Log
// messages that came on the GET stream meanwhile count as the call's, where it
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
	request, err := post(ctx, c.url, body)
	if err != nil {
		return o, err
	}
	c.head(request)
	answered := false
	header, err := send(c.http, request, func(m message) (bool, error) {
		switch {
		case m.isResponse():
			answered = true
			return false, o.respond(m)
		case m.ID != nil:
			return true, c.answer(ctx, r, m, &o)
		}
		_, err := o.notify(m, token)
		return true, err
	})
	if err != nil {
		return o, fmt.Errorf("%s: %w", r.Method, err)
	}
	if !answered {
		return o, fmt.Errorf("%s: %w", r.Method, ErrEnded)
	}
	if r.Method == "initialize" {
		c.session = header.Get("Mcp-Session-Id")
	}
	c.mu.Lock()
	o.Log = append(o.Log, c.log...)
	c.mu.Unlock()
	if r.LogLevel == "" {
		o.Log = nil
	}
	return o, nil
}

// Listen subscribes to the resources and hears what the GET stream brings.
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
