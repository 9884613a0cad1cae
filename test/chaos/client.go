package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Client speaks the modern protocol to one endpoint, each request on a
// connection of its own.
type Client struct {
	URL    string // of the balancer
	Caller int

	http *http.Client
	ids  *atomic.Int64
}

// requestTime is how long a client waits for an answer.
const requestTime = 30 * time.Second

// NewClient returns a client of the balancer at address.
func NewClient(address string, caller int) *Client {
	return &Client{
		URL: "http://" + address, Caller: caller, ids: new(atomic.Int64),
		http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}},
	}
}

// Reply is how a request was answered: by exactly one of Result, State, Err and
// Broken.
type Reply struct {
	Result string // the text of the tool's result
	State  string // input_required: the request state
	Asked  []Asked
	Err    *Failure
	Broken error // the connection ended without an answer
	Begun  bool  // the head of the response has come

	Progress int // notifications before
}

// Asked is an input request.
type Asked struct {
	Key    string
	Method Kind
	Params string
}

// Failure is a JSON-RPC error.
type Failure struct {
	Code    int
	Message string
	Data    struct {
		Reason     string
		MayHaveRun *bool
	}

	RetryAfter bool // the answer's head says that it is worth trying again
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%d %s (reason %q)", f.Code, f.Message, f.Data.Reason)
}

// String is for comparing and printing.
func (r *Reply) String() string {
	switch {
	case r.Broken != nil:
		return "broken: " + r.Broken.Error()
	case r.Err != nil:
		return "error: " + r.Err.Error()
	case r.State != "":
		return fmt.Sprintf("asked: %v", r.Asked)
	}
	return "result: " + r.Result
}

// final reports whether the reply leaves nothing to try.
func (r *Reply) final() bool {
	return r.Broken == nil && (r.Err == nil || !r.Err.RetryAfter)
}

// Send sends a tool call: the first time, or with what a retry brings. ctx ends
// when the client closes its connection.
func (c *Client) Send(ctx context.Context, plan *Plan, script *Script, state string, responses map[string]any) *Reply {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTime, errors.New("no answer in time"))
	defer cancel()
	id := c.ids.Add(1)
	token := fmt.Sprintf("progress-%d", id)
	params := map[string]any{
		"name": plan.Tool, "arguments": script,
		"_meta": map[string]any{
			"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
			"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "chaos", "version": "1"},
			"io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{"form": struct{}{}}, "sampling": struct{}{}, "roots": struct{}{}},
			"progressToken": token,
		},
	}
	if state != "" {
		params["requestState"] = state
	}
	if len(responses) > 0 {
		params["inputResponses"] = responses
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
	if err != nil {
		return &Reply{Broken: err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+plan.Path, bytes.NewReader(body))
	if err != nil {
		return &Reply{Broken: err}
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": string(plan.Tool),
		"Authorization": fmt.Sprintf("Bearer caller-%d", c.Caller),
	} {
		request.Header.Set(name, value)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return &Reply{Broken: err}
	}
	defer func() { _ = response.Body.Close() }() // only read
	return read(response, id, token)
}

// rpc is what a body or an event may be.
type rpc struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Token string `json:"progressToken"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *Failure        `json:"error"`
}

const maxBody = 1 << 20

func read(response *http.Response, id int64, token string) *Reply {
	r := &Reply{Begun: true}
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
		if err != nil {
			r.Broken = err
			return r
		}
		r.take(body, id, token, response)
		return r
	}
	lines := bufio.NewReaderSize(response.Body, maxBody)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			r.Broken = fmt.Errorf("stream without an answer: %w", err)
			return r
		}
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && r.take(data, id, token, response) {
			return r
		}
	}
}

// take reads a message; it reports whether that was the answer.
func (r *Reply) take(data []byte, id int64, token string, response *http.Response) bool {
	var m rpc
	if err := json.Unmarshal(data, &m); err != nil {
		r.Broken = fmt.Errorf("HTTP %d with %.200q: %w", response.StatusCode, data, err)
		return true
	}
	if m.Method == "notifications/progress" {
		if m.Params.Token != token {
			r.Broken = fmt.Errorf("progress under token %q, not %q", m.Params.Token, token)
			return true
		}
		r.Progress++
		return false
	}
	switch {
	case m.Error != nil:
		r.Err = m.Error
		r.Err.RetryAfter = response.Header.Get("Retry-After") != "" || m.Error.Data.Reason == "bus_down" || m.Error.Data.Reason == "shutdown"
	case string(m.ID) != strconv.FormatInt(id, 10):
		r.Broken = fmt.Errorf("an answer to request %s, not %d: %.200s", m.ID, id, data)
	default:
		r.result(m.Result)
	}
	return true
}

func (r *Reply) result(raw json.RawMessage) {
	var result struct {
		Type     string `json:"resultType"`
		State    string `json:"requestState"`
		Requests map[string]struct {
			Method Kind            `json:"method"`
			Params json.RawMessage `json:"params"`
		} `json:"inputRequests"`
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		r.Broken = fmt.Errorf("result %.200s: %w", raw, err)
		return
	}
	switch {
	case result.Type == "input_required" && result.State != "":
		r.State = result.State
		for key, asked := range result.Requests {
			r.Asked = append(r.Asked, Asked{key, asked.Method, string(asked.Params)})
		}
		sortAsked(r.Asked)
	case result.Type == "complete" && len(result.Content) == 1:
		r.Result = result.Content[0].Text
	default:
		r.Broken = fmt.Errorf("result %.200s", raw)
	}
}
