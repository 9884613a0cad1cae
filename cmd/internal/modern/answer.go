package modern

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Progress is a progress notification of the running request.
type Progress struct {
	Progress float64  `json:"progress"`
	Total    *float64 `json:"total"` // nil when the server does not know
	Message  string   `json:"message"`
}

// LogMessage is a log message of the running request.
type LogMessage struct {
	Level  string         `json:"level"`
	Logger string         `json:"logger"`
	Data   jsontext.Value `json:"data"`
}

// answerTo names the request whose answer is read.
type answerTo struct {
	id    string // raw JSON
	token string
}

// message is any JSON-RPC message that a server may send.
type message struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Method  string         `json:"method"`
	Params  jsontext.Value `json:"params"`
	Result  jsontext.Value `json:"result"`
	Error   *RPCError      `json:"error"`
}

// read takes the answer from an HTTP response: a JSON body or a stream.
func (c *Client) read(response *http.Response, to answerTo) (jsontext.Value, error) {
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	ok := response.StatusCode == http.StatusOK
	if ok && kind == "text/event-stream" {
		return c.stream(response.Body, to)
	}
	body, err := readAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if c.Trace != nil {
		c.Trace.Body(body)
	}
	if kind == "application/json" {
		var m message
		if err := json.Unmarshal(body, &m, lenient); err == nil && m.JSONRPC == "2.0" && (ok || m.Error != nil) {
			return m.outcome(to)
		} else if ok {
			return nil, fmt.Errorf("%w: the body is no JSON-RPC response (%v)", ErrBroken, err)
		}
	}
	if ok {
		return nil, fmt.Errorf("%w: an answer of type %q", ErrBroken, response.Header.Get("Content-Type"))
	}
	return nil, &HTTPError{Status: response.StatusCode, Header: response.Header, Body: beginning(body)}
}

// beginning is as much of a body as an error shows.
func beginning(body []byte) string {
	const most = 300
	if len(body) > most {
		return string(body[:most]) + "…"
	}
	return string(body)
}

// stream reads events until the answer comes; what comes before it goes to
// the listener.
func (c *Client) stream(body io.Reader, to answerTo) (jsontext.Value, error) {
	events := newEventReader(body)
	for {
		event, err := events.next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: the stream ended without an answer", ErrBroken)
		} else if err != nil {
			return nil, fmt.Errorf("read the stream: %w", err)
		}
		if c.Trace != nil {
			c.Trace.Event(event)
		}
		if event.Comment || event.Name != "" && event.Name != "message" {
			continue
		}
		var m message
		if err := json.Unmarshal(event.Data, &m, lenient); err != nil || m.JSONRPC != "2.0" {
			return nil, fmt.Errorf("%w: an event is no JSON-RPC message (%v)", ErrBroken, err)
		}
		switch {
		case m.Method == "":
			return m.outcome(to)
		case len(m.ID) != 0:
			// Spec, basic/transports/streamable-http, "Receiving Messages".
			return nil, fmt.Errorf("%w: a request (%s) on a response stream", ErrBroken, m.Method)
		default:
			c.hear(m, to.token)
		}
	}
}

// outcome is what a response says: a result, or the error in it.
func (m *message) outcome(to answerTo) (jsontext.Value, error) {
	if m.Method != "" {
		return nil, fmt.Errorf("%w: %s where a response belongs", ErrBroken, m.Method)
	}
	if m.Error != nil {
		// Without an id: the server could not read it.
		if id := string(m.ID); id != "" && id != "null" && id != to.id {
			return nil, fmt.Errorf("%w: an error for request %s, not %s", ErrBroken, id, to.id)
		}
		return nil, m.Error
	}
	if string(m.ID) != to.id {
		return nil, fmt.Errorf("%w: a response to request %q, not %s", ErrBroken, m.ID, to.id)
	}
	if m.Result.Kind() != '{' {
		return nil, fmt.Errorf("%w: a response without result or error", ErrBroken)
	}
	return m.Result, nil
}

// hear hands a notification on, if it is one of this request. Others are
// ignored, as JSON-RPC wants it of unknown notifications.
func (c *Client) hear(m message, token string) {
	if c.Listener == nil {
		return
	}
	switch m.Method {
	case notifyProgress:
		var p struct {
			Progress
			Token jsontext.Value `json:"progressToken"`
		}
		if json.Unmarshal(m.Params, &p, lenient) != nil {
			return
		}
		if got, _ := Text(p.Token); token != "" && got == token {
			c.Listener.Progress(p.Progress)
		}
	case notifyMessage:
		var log LogMessage
		if json.Unmarshal(m.Params, &log, lenient) == nil && c.LogLevel != "" {
			c.Listener.Log(log)
		}
	}
}
