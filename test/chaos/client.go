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

// Client sends messages to one endpoint, each on a connection of its own.
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

// Request is a message of a client.
type Request struct {
	Dialect Dialect
	Path    string
	ID      int64  // 0: the message has none, or Body has it
	Method  string // "": Body is a response
	Name    string // what Mcp-Name says
	Token   string // under which progress is reported
	Params  map[string]any
	Body    map[string]any // further members of the message

	// Hear is given what comes before the answer; nil: only progress may.
	Hear func(*rpc) error
}

// Reply is how a request was answered: by exactly one of Result, State, Task,
// Status, Err and Broken.
type Reply struct {
	Result string // the text of the tool's result, or acknowledged
	State  string // the call goes on: the request state, or what a dialect has in its place
	Asked  []Asked
	Task   *Task
	Status string // how a request stands that is followed
	Err    *Failure
	Broken error // the connection ended without an answer
	Begun  bool  // the head of the response has come

	Progress int // notifications before
}

// acknowledged is the result of what only brings something.
const acknowledged = "acknowledged"

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

// mayHaveRun reports whether the error says that the call may have run.
func (f *Failure) mayHaveRun() bool { return f.Data.MayHaveRun != nil && *f.Data.MayHaveRun }

// String is for comparing and printing.
func (r *Reply) String() string {
	switch {
	case r.Broken != nil:
		return "broken: " + r.Broken.Error()
	case r.Err != nil:
		return "error: " + r.Err.Error()
	case r.Task != nil:
		return r.Task.String()
	case r.State != "":
		return fmt.Sprintf("asked: %v", r.Asked)
	case r.Status != "":
		return "status: " + r.Status
	}
	return "result: " + r.Result
}

// final reports whether the reply leaves nothing to try.
func (r *Reply) final() bool {
	return r.Broken == nil && (r.Err == nil || !r.Err.RetryAfter)
}

// Send sends a message and waits for its answer. ctx ends when the client closes
// its connection.
func (c *Client) Send(ctx context.Context, q *Request) *Reply {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTime, errors.New("no answer in time"))
	defer cancel()
	message := map[string]any{"jsonrpc": "2.0"}
	for name, value := range q.Body {
		message[name] = value
	}
	if q.ID != 0 {
		message["id"] = q.ID
	}
	if q.Method != "" {
		message["method"], message["params"] = q.Method, q.Params
	}
	body, err := json.Marshal(message)
	if err != nil {
		return &Reply{Broken: err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+q.Path, bytes.NewReader(body))
	if err != nil {
		return &Reply{Broken: err}
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Authorization": fmt.Sprintf("Bearer caller-%d", c.Caller),
	} {
		request.Header.Set(name, value)
	}
	if q.Dialect.Modern() {
		request.Header.Set("MCP-Protocol-Version", "2026-07-28")
		request.Header.Set("Mcp-Method", q.Method)
		if q.Name != "" {
			request.Header.Set("Mcp-Name", q.Name)
		}
	} else {
		request.Header.Set("Holdfast-Dialect", string(q.Dialect))
	}
	response, err := c.http.Do(request)
	if err != nil {
		return &Reply{Broken: err}
	}
	defer func() { _ = response.Body.Close() }() // only read
	return read(response, q)
}

// rpc is what a body or an event may be.
type rpc struct {
	ID        json.RawMessage  `json:"id"`
	Method    string           `json:"method"`
	Params    json.RawMessage  `json:"params"`
	Result    json.RawMessage  `json:"result"`
	Dependent map[string]asked `json:"dependent_requests"`
	Error     *Failure         `json:"error"`
}

const maxBody = 1 << 20

func read(response *http.Response, q *Request) *Reply {
	r := &Reply{Begun: true}
	if response.StatusCode == http.StatusAccepted { // of what gets no answer
		r.Result = acknowledged
		return r
	}
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
		if err != nil {
			r.Broken = err
			return r
		}
		r.take(body, q, response)
		return r
	}
	lines := bufio.NewReaderSize(response.Body, maxBody)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			r.Broken = fmt.Errorf("%w: %w", errNoAnswer, err)
			return r
		}
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && r.take(data, q, response) {
			return r
		}
	}
}

// errNoAnswer is a stream that has ended without an answer.
var errNoAnswer = errors.New("stream without an answer")

// take reads a message; it reports whether that was the answer.
func (r *Reply) take(data []byte, q *Request, response *http.Response) bool {
	var m rpc
	if err := json.Unmarshal(data, &m); err != nil {
		r.Broken = fmt.Errorf("HTTP %d with %.200q: %w", response.StatusCode, data, err)
		return true
	}
	if m.Method != "" {
		if m.Method == "notifications/progress" {
			r.Progress++
			if r.Broken = q.ours(&m); r.Broken != nil {
				return true
			}
		}
		if q.Hear != nil {
			r.Broken = q.Hear(&m)
		}
		return r.Broken != nil
	}
	switch {
	case m.Error != nil:
		r.Err = m.Error
		r.Err.RetryAfter = response.Header.Get("Retry-After") != "" || m.Error.Data.Reason == "bus_down" || m.Error.Data.Reason == "shutdown"
	case string(m.ID) != strconv.FormatInt(q.ID, 10):
		r.Broken = fmt.Errorf("an answer to request %s, not %d: %.200s", m.ID, q.ID, data)
	case m.Dependent != nil:
		r.dependent(m.Dependent)
	default:
		r.result(q.Dialect, m.Result)
	}
	return true
}

// ours holds the token of progress against the request's.
func (q *Request) ours(m *rpc) error {
	var params struct {
		Token string `json:"progressToken"`
	}
	if err := json.Unmarshal(m.Params, &params); err != nil || params.Token != q.Token {
		return fmt.Errorf("progress under token %q, not %q (%w)", params.Token, q.Token, err)
	}
	return nil
}
