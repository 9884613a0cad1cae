package peer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
)

// maxMessage bounds a JSON body and an SSE line.
const maxMessage = 16 << 20

// ErrEnded: an answer ended without a response to the request.
var ErrEnded = errors.New("the answer ended without a response")

// message is one JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func (m message) isResponse() bool { return m.Method == "" && (m.Result != nil || m.Error != nil) }

// Decode decodes JSON into maps, slices, strings, booleans and [json.Number].
func Decode(raw []byte) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

// send does one HTTP request and hands the messages of its answer to each, in
// order, until the answer or each ends it. An answer that holds no messages
// (202) is none.
func send(client *http.Client, request *http.Request, each func(message) (more bool, err error)) (http.Header, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) // no type is no known type
	switch {
	case response.StatusCode == http.StatusAccepted:
		return response.Header, nil
	case response.StatusCode == http.StatusOK && kind == "text/event-stream":
		return response.Header, events(response.Body, each)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxMessage))
	if err != nil {
		return nil, err
	}
	var m message
	if kind == "application/json" && json.Unmarshal(body, &m) == nil && m.isResponse() {
		_, err := each(m)
		return response.Header, err
	}
	return nil, fmt.Errorf("%s: HTTP %d %q: %.200q", request.Method, response.StatusCode, kind, body)
}

// events reads an SSE stream. The peers write each message as one data line,
// as do all JSON-RPC writers; another event is an error and not dropped.
func events(stream io.Reader, each func(message) (more bool, err error)) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if data = bytes.TrimSpace(data); !ok || len(data) == 0 {
			continue // another field, a comment, or an event that only carries an id
		}
		var m message
		if err := json.Unmarshal(data, &m); err != nil {
			return fmt.Errorf("event %.200q: %w", data, err)
		}
		if more, err := each(m); !more || err != nil {
			return err
		}
	}
	return lines.Err()
}

// post builds the HTTP request that carries one message.
func post(ctx context.Context, url string, body any) (*http.Request, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	return request, nil
}

// respond fills in what a response says.
func (o *Outcome) respond(m message) (err error) {
	if o.Result, err = Decode(m.Result); err != nil {
		return err
	}
	o.Error, err = Decode(m.Error)
	return err
}

// notify fills in what a notification of a call says, and reports whether it
// is one of those that a call has. A progress token has to be the call's own.
func (o *Outcome) notify(m message, token any) (bool, error) {
	params, err := Decode(m.Params)
	if err != nil {
		return false, err
	}
	switch m.Method {
	case "notifications/progress":
		rest, got := without(params, "progressToken")
		if got != token {
			return true, fmt.Errorf("progress with token %v, want %v", got, token)
		}
		o.Progress = append(o.Progress, rest)
	case "notifications/message":
		o.Log = append(o.Log, params)
	default:
		return false, nil
	}
	return true, nil
}
