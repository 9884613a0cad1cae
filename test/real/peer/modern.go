package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
)

// ModernVersion is the revision that [Modern] speaks.
const ModernVersion = "2026-07-28"

const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClientInfo   = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
	metaProgress     = "progressToken"
)

// maxRounds bounds the rounds of one call.
const maxRounds = 10

// Modern is a stateless client.
type Modern struct {
	url      string
	identity Identity
	http     *http.Client
	ids      atomic.Int64
	asked    []Question
}

// NewModern returns a client of the endpoint. It sends nothing yet.
func NewModern(url string, identity Identity) *Modern {
	return &Modern{url: url, identity: identity, http: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
}

// Close ends the client's connections.
func (c *Modern) Close(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// Asked returns all questions that the client was asked so far.
func (c *Modern) Asked() []Question { return c.asked }

// Hello asks what there is: server/discover.
func (c *Modern) Hello(ctx context.Context) (Outcome, error) {
	return c.Call(ctx, Request{Method: "server/discover"})
}

// Call sends a request, in as many rounds as its questions need.
func (c *Modern) Call(ctx context.Context, r Request) (Outcome, error) {
	o := Outcome{Method: r.Method}
	params := r.Params
	for range maxRounds {
		if err := c.round(ctx, r, params, &o); err != nil {
			return o, fmt.Errorf("%s: %w", r.Method, err)
		}
		result, _ := o.Result.(map[string]any)
		if result["resultType"] != "input_required" {
			return o, nil
		}
		responses, err := c.answers(r, result["inputRequests"], &o)
		if err != nil {
			return o, fmt.Errorf("%s: %w", r.Method, err)
		}
		params = with(r.Params, "inputResponses", responses)
		if state, ok := result["requestState"]; ok {
			params["requestState"] = state
		}
	}
	return o, fmt.Errorf("%s: still input_required after %d rounds", r.Method, maxRounds)
}

// answers answers the questions of one round, in the order of their keys.
func (c *Modern) answers(r Request, requests any, o *Outcome) (map[string]any, error) {
	byKey, _ := requests.(map[string]any)
	responses := make(map[string]any, len(byKey))
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		asked, _ := byKey[key].(map[string]any)
		method, _ := asked["method"].(string)
		q := question(method, asked["params"])
		o.Asked, c.asked = append(o.Asked, q), append(c.asked, q)
		answer, ok := c.identity.answer(r, q)
		if !ok {
			return nil, fmt.Errorf("input request %s asks %q, and there is no answer to that", key, method)
		}
		responses[key] = answer
	}
	return responses, nil
}

// round sends one request and reads its answer to the end. Nothing may follow
// the response.
func (c *Modern) round(ctx context.Context, r Request, params map[string]any, o *Outcome) error {
	id := c.ids.Add(1)
	var token any
	if r.Progress {
		token = "progress-" + strconv.FormatInt(id, 10)
	}
	request, err := c.request(ctx, id, r, params, token)
	if err != nil {
		return err
	}
	answered := false
	header, err := send(c.http, request, func(m message) (bool, error) {
		switch {
		case answered:
			return false, errors.New("a message follows the response")
		case m.isResponse():
			answered = true
			if string(m.ID) != strconv.FormatInt(id, 10) {
				return false, fmt.Errorf("response to id %s, want %d", m.ID, id)
			}
			return true, o.respond(m)
		}
		known, err := o.notify(m, token)
		if err == nil && !known {
			err = fmt.Errorf("%q on the stream of a call", m.Method)
		}
		return true, err
	})
	if err != nil {
		return err
	}
	if header.Get("Mcp-Session-Id") != "" {
		return errors.New("the answer has an Mcp-Session-Id")
	}
	if !answered {
		return ErrEnded
	}
	return nil
}

// request builds the HTTP request: all context is in it.
func (c *Modern) request(ctx context.Context, id int64, r Request, params map[string]any, token any) (*http.Request, error) {
	meta := map[string]any{
		metaVersion: ModernVersion, metaClientInfo: c.identity.info(), metaCapabilities: c.identity.Capabilities,
	}
	if r.LogLevel != "" {
		meta[metaLogLevel] = r.LogLevel
	}
	if token != nil {
		meta[metaProgress] = token
	}
	request, err := post(ctx, c.url, map[string]any{
		"jsonrpc": "2.0", "id": id, "method": r.Method, "params": with(params, "_meta", meta),
	})
	if err != nil {
		return nil, err
	}
	request.Header.Set("MCP-Protocol-Version", ModernVersion)
	request.Header.Set("Mcp-Method", r.Method)
	if member, named := map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}[r.Method]; named {
		name, _ := params[member].(string)
		request.Header.Set("Mcp-Name", name)
	}
	return request, nil
}

// Listen opens a subscription and returns when it is acknowledged in full.
func (c *Modern) Listen(ctx context.Context, f Filter) (*Listener, error) {
	ctx, cancel := context.WithCancel(ctx)
	id := c.ids.Add(1)
	filter := map[string]any{}
	if len(f.Resources) > 0 {
		filter["resourceSubscriptions"] = f.Resources
	}
	if f.ResourcesListChanged {
		filter["resourcesListChanged"] = true
	}
	params := map[string]any{"notifications": filter}
	request, err := c.request(ctx, id, Request{Method: "subscriptions/listen"}, params, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	updates, acknowledged, ended := make(chan Update, maxUpdates), make(chan struct{}), make(chan error, 1)
	go func() { // ends with ctx, which Close cancels and waits
		defer close(updates)
		first := true
		_, err := send(c.http, request, func(m message) (bool, error) {
			u, err := subscribed(m, id)
			if err != nil {
				return false, err
			}
			if first {
				first = false
				err := acknowledges(u, filter)
				if err == nil {
					close(acknowledged)
				}
				return true, err
			}
			if !f.wants(u.Method, u.Params) {
				return false, fmt.Errorf("%s %v, which the filter does not ask for", u.Method, u.Params)
			}
			select {
			case updates <- u:
				return true, nil
			default:
				return false, fmt.Errorf("more than %d updates", maxUpdates)
			}
		})
		if err == nil {
			err = ErrEnded
		}
		ended <- fmt.Errorf("subscriptions/listen: %w", err)
	}()
	closeListener := func() error {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
	select {
	case <-acknowledged:
		return &Listener{Updates: updates, close: closeListener}, nil
	case err := <-ended:
		cancel()
		return nil, err
	}
}

// subscribed reads a notification of a subscription, which carries its id.
func subscribed(m message, id int64) (Update, error) {
	params, err := Decode(m.Params)
	if err != nil {
		return Update{}, err
	}
	if m.Method == "" {
		return Update{}, fmt.Errorf("response %s%s", m.Result, m.Error)
	}
	rest, meta := without(params, "_meta")
	others, got := without(meta, metaSubscription)
	if got != json.Number(strconv.FormatInt(id, 10)) {
		return Update{}, fmt.Errorf("%s with subscription id %v, want %d", m.Method, got, id)
	}
	if members, _ := others.(map[string]any); len(members) > 0 {
		rest = with(rest.(map[string]any), "_meta", members)
	}
	if members, _ := rest.(map[string]any); len(members) == 0 {
		rest = nil // the subscription's id was all that there was
	}
	return Update{Method: m.Method, Params: rest}, nil
}

// acknowledges checks the first message of a subscription.
func acknowledges(u Update, filter map[string]any) error {
	if u.Method != "notifications/subscriptions/acknowledged" {
		return fmt.Errorf("%s comes before the acknowledgement", u.Method)
	}
	params, _ := u.Params.(map[string]any)
	got, err := json.Marshal(params["notifications"])
	if err != nil {
		return err
	}
	want, err := json.Marshal(filter)
	if err != nil {
		return err
	}
	if string(got) != string(want) {
		return fmt.Errorf("acknowledged is %s, want %s", got, want)
	}
	return nil
}
