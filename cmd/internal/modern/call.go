package modern

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// InputRequest is a question that the server asks inside a call.
type InputRequest struct {
	Key    string
	Method string // MethodElicit, MethodCreateMessage or MethodListRoots
	Params jsontext.Value
	Server ServerInfo // who asks
}

// Answerer answers the questions of a call, one after the other, in the order
// in which they stand in the result.
type Answerer interface {
	// Answer returns the result of the input request, as JSON. An error ends
	// the call: nothing more is sent.
	Answer(ctx context.Context, asked InputRequest) (jsontext.Value, error)
}

// Pauses before a call is sent again for which nothing was asked (spec,
// basic/patterns/mrtr: the client may retry immediately; a little later is
// kinder to a server that sheds load).
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 4 * time.Second
)

// Call calls a tool, in as many rounds as it takes, at most 20. The tool is
// one of ListTools; for one that is not listed, a Tool with the name alone
// will do. Arguments are a JSON object.
func (c *Client) Call(ctx context.Context, tool Tool, arguments jsontext.Value, answerer Answerer) (Result, error) {
	call := call{client: c, tool: tool, arguments: arguments}
	pause := firstPause
	var more []Member // what a retry carries besides the original params
	for range maxRounds {
		raw, err := call.round(ctx, more)
		if err != nil {
			return Result{}, err
		}
		kind, err := resultType(raw)
		if err != nil {
			return Result{}, err
		}
		if kind == typeComplete {
			return finish(raw)
		}
		asked, err := c.inputRequests(raw)
		if err != nil {
			return Result{}, err
		}
		more = nil
		if len(asked) == 0 {
			if err := c.wait(ctx, pause); err != nil {
				return Result{}, err
			}
			pause = min(2*pause, lastPause)
		} else {
			responses, err := answerAll(ctx, answerer, asked)
			if err != nil {
				return Result{}, err
			}
			more = append(more, Member{"inputResponses", responses})
			pause = firstPause
		}
		// The exact value, and only if there is one (spec,
		// basic/patterns/mrtr, "Client Requirements").
		if state := Get(raw, "requestState"); state != nil {
			more = append(more, Member{"requestState", state})
		}
	}
	return Result{}, ErrRounds
}

func finish(raw jsontext.Value) (Result, error) {
	result := Result{Raw: raw, Server: serverOf(raw)}
	if err := json.Unmarshal(raw, &result, lenient); err != nil {
		return Result{}, fmt.Errorf("%w: %s: %w", ErrBroken, methodToolsCall, err)
	}
	return result, nil
}

func answerAll(ctx context.Context, answerer Answerer, asked []InputRequest) (jsontext.Value, error) {
	var responses []Member
	for _, question := range asked {
		answer, err := answerer.Answer(ctx, question)
		if err != nil {
			return nil, err
		}
		responses = append(responses, Member{question.Key, answer})
	}
	return Object(responses...), nil
}

func (c *Client) wait(ctx context.Context, pause time.Duration) error {
	if c.Listener != nil {
		c.Listener.Waiting(pause)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// inputRequests reads what an InputRequiredResult asks, in its order.
func (c *Client) inputRequests(result jsontext.Value) ([]InputRequest, error) {
	requests := Get(result, "inputRequests")
	if requests == nil && Get(result, "requestState") == nil {
		return nil, fmt.Errorf("%w: %s without inputRequests and requestState", ErrBroken, typeInputRequired)
	}
	members, err := Members(requests)
	if err != nil {
		return nil, fmt.Errorf("%w: inputRequests: %w", ErrBroken, err)
	}
	server := serverOf(result)
	var asked []InputRequest
	for _, member := range members {
		method, _ := Text(Get(member.Value, "method"))
		declared := false
		switch method {
		case MethodElicit:
			declared = c.Capabilities.Elicitation
		case MethodCreateMessage:
			declared = c.Capabilities.Sampling
		case MethodListRoots:
			declared = c.Capabilities.Roots
		}
		if !declared {
			return nil, fmt.Errorf("%w: it asks for %q (key %q), which this request did not declare", ErrBroken, method, member.Name)
		}
		asked = append(asked, InputRequest{Key: member.Name, Method: method, Params: Get(member.Value, "params"), Server: server})
	}
	return asked, nil
}

// call is what stays the same over the rounds of a call.
type call struct {
	client    *Client
	tool      Tool
	arguments jsontext.Value
	token     string
	relisted  bool
}

// round sends the call once. Where the server refuses its headers, the tool's
// schema may have changed: it is listed again, once, and the round repeated
// (spec, basic/transports/streamable-http, "Client Behavior").
func (c *call) round(ctx context.Context, more []Member) (jsontext.Value, error) {
	if c.client.Progress && c.token == "" {
		c.token = fmt.Sprintf("progress-%d", c.client.ids.Load()+1)
	}
	raw, err := c.client.send(ctx, c.request(more))
	refused := new(RPCError)
	if !errors.As(err, &refused) || refused.Code != codeHeaderMismatch || c.relisted {
		return raw, err
	}
	c.relisted = true
	list, listErr := c.client.ListTools(ctx)
	if listErr != nil {
		return nil, err
	}
	tool, found, findErr := list.Find(c.tool.Name)
	if findErr != nil || !found || slices.EqualFunc(tool.mirrors, c.tool.mirrors, sameMirror) {
		return nil, err
	}
	c.tool = tool
	return c.client.send(ctx, c.request(more))
}

func sameMirror(a, b mirror) bool { return a.header == b.header && slices.Equal(a.path, b.path) }

func (c *call) request(more []Member) request {
	r := request{method: methodToolsCall, name: c.tool.Name, named: true, token: c.token}
	r.params = []Member{{"name", Quote(c.tool.Name)}}
	if c.arguments != nil {
		r.params = append(r.params, Member{"arguments", c.arguments})
	}
	r.params = append(r.params, more...)
	for _, m := range c.tool.mirrors {
		if value, ok := m.value(c.arguments); ok {
			r.headers = append(r.headers, Member{headerParam + m.header, jsontext.Value(value)})
		}
	}
	return r
}
