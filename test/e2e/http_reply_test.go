package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Envelope is one JSON-RPC message.
type Envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *Failure        `json:"error"`
	Raw    json.RawMessage `json:"-"`
}

// Failure is a JSON-RPC error.
type Failure struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// Reason is the error's data.reason.
func (f *Failure) Reason() string {
	var data struct{ Reason string }
	_ = json.Unmarshal(f.Data, &data) // other data has no reason
	return data.Reason
}

// Input is one of an answer's inputRequests.
type Input struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// Reply is a whole answer.
type Reply struct {
	Request *Message // what it answers, where it was a Message
	Status  int
	Header  http.Header
	Body    []byte
	// Messages are all messages of the answer, the response last.
	Messages []Envelope
	// Comments is how many comment lines a stream had.
	Comments int

	// Of the response, when there is one:
	ID     json.RawMessage
	Result json.RawMessage
	Error  *Failure
	// Type is the result's resultType, Inputs and State what it asks.
	Type   string
	Inputs map[string]Input
	State  string
}

// SSE reports whether the answer is an event stream.
func (r *Reply) SSE() bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream")
}

// take sets what the last message is about.
func (r *Reply) take(t testing.TB) {
	t.Helper()
	if len(r.Messages) == 0 {
		return
	}
	last := r.Messages[len(r.Messages)-1]
	r.ID, r.Result, r.Error = last.ID, last.Result, last.Error
	if r.Result == nil {
		return
	}
	var result struct {
		ResultType    string
		InputRequests map[string]Input
		RequestState  string
	}
	if err := json.Unmarshal(r.Result, &result); err != nil {
		t.Fatalf("result: %v\n%s", err, r.Result)
	}
	r.Type, r.Inputs, r.State = result.ResultType, result.InputRequests, result.RequestState
}

func (r *Reply) readFrames(t testing.TB) {
	t.Helper()
	reader := bufio.NewReader(bytes.NewReader(r.Body))
	for {
		f, err := readFrame(reader)
		if err != nil {
			break
		}
		if f.Comment {
			r.Comments++
			continue
		}
		r.Messages = append(r.Messages, f.envelope(t))
	}
	for i, m := range r.Messages {
		if m.Method == "" && i+1 < len(r.Messages) {
			t.Errorf("the stream goes on after its response: %s", r.Body)
		}
		if m.Method != "" && m.ID != nil {
			t.Errorf("the stream carries a request: %s", m.Raw)
		}
	}
	r.take(t)
}

// Notifications are the messages of a method, in order.
func (r *Reply) Notifications(method string) (list []Envelope) {
	for _, m := range r.Messages {
		if m.Method == method {
			list = append(list, m)
		}
	}
	return list
}

// Completes checks that the answer is a complete result, and returns it.
func (r *Reply) Completes(t testing.TB) map[string]any {
	t.Helper()
	if r.Status != http.StatusOK || r.Result == nil || r.Type != "complete" {
		t.Fatalf("answer is not a complete result: HTTP %d\n%s", r.Status, r.Body)
	}
	r.checkID(t)
	var result map[string]any
	if err := json.Unmarshal(r.Result, &result); err != nil {
		t.Fatal(err)
	}
	return result
}

// Text is the first text of a tool's complete result.
func (r *Reply) Text(t testing.TB) string {
	t.Helper()
	r.Completes(t)
	var result struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(r.Result, &result); err != nil || len(result.Content) == 0 {
		t.Fatalf("the result has no text: %s", r.Result)
	}
	return result.Content[0].Text
}

// Asks checks that the answer is input_required with exactly these keys.
func (r *Reply) Asks(t testing.TB, keys ...string) {
	t.Helper()
	if r.Status != http.StatusOK || r.Type != "input_required" {
		t.Fatalf("answer does not ask: HTTP %d\n%s", r.Status, r.Body)
	}
	r.checkID(t)
	var got []string
	for key := range r.Inputs {
		got = append(got, key)
	}
	slices.Sort(got)
	slices.Sort(keys)
	if !slices.Equal(got, keys) {
		t.Fatalf("asks for %q, want %q\n%s", got, keys, r.Body)
	}
	if r.State == "" {
		t.Fatalf("asks without a requestState: %s", r.Body)
	}
}

// Fails checks an error. "" as reason takes any.
func (r *Reply) Fails(t testing.TB, status, code int, reason string) {
	t.Helper()
	if r.Error == nil {
		t.Fatalf("answer is no error: HTTP %d\n%s\nwant %d, code %d, reason %s", r.Status, r.Body, status, code, reason)
	}
	if r.Status != status || r.Error.Code != code || reason != "" && r.Error.Reason() != reason {
		t.Fatalf("HTTP %d, code %d, reason %q; want %d, %d, %q\n%s", r.Status, r.Error.Code, r.Error.Reason(), status, code, reason, r.Body)
	}
	r.checkID(t)
}

// checkID: the response has the request's id.
func (r *Reply) checkID(t testing.TB) {
	t.Helper()
	if r.Request == nil {
		return
	}
	want, err := json.Marshal(r.Request.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(r.ID, want) {
		t.Fatalf("the answer has id %s, want %s\n%s", r.ID, want, r.Body)
	}
}

// Frame is a comment or an event of a stream.
type Frame struct {
	Comment bool
	Data    []byte
}

func (f Frame) envelope(t testing.TB) Envelope {
	t.Helper()
	var e Envelope
	if err := json.Unmarshal(f.Data, &e); err != nil {
		t.Fatalf("an event is no JSON-RPC message: %v\n%s", err, f.Data)
	}
	e.Raw = f.Data
	return e
}

// readFrame reads one comment or event, each of which ends with an empty line.
func readFrame(r *bufio.Reader) (Frame, error) {
	var f Frame
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			if err == io.EOF && len(line) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return Frame{}, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch data, isData := bytes.CutPrefix(line, []byte("data:")); {
		case len(line) == 0 && (f.Comment || f.Data != nil):
			return f, nil
		case bytes.HasPrefix(line, []byte(":")):
			f.Comment = true
		case isData:
			if f.Data != nil {
				f.Data = append(f.Data, '\n')
			}
			f.Data = append(f.Data, bytes.TrimPrefix(data, []byte(" "))...)
			f.Comment = false
		}
	}
}
