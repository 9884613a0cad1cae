package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// execution is a tool call that runs.
type execution struct {
	server  *Server
	session *session
	id      json.RawMessage
	token   json.RawMessage // of its progress, or nil
	script  Script
	run     *Run
	voice   voice
	ctx     context.Context
	cancel  context.CancelFunc
}

// voice is where an execution speaks: the stream of its request, or the one that
// its session has for everything.
type voice interface {
	// send says a message; final is the last one of the execution.
	send(data string, final bool)
	// end: the execution has nothing more to say.
	end()
}

// question is what an execution asks.
type question struct {
	x        *execution
	label    string
	kind     Kind
	answered chan string // has room for the one answer that counts
	answer   string      // guarded by Server.mu; "" before
}

// errEnded: a request is not taken, because its session has ended.
var errEnded = errors.New("session not found")

// begin begins the execution of a tool call, which says what it has to say on
// voice; nil: on a stream of its own, which is returned.
func (s *Server) begin(on *session, m *message, voice voice) (own *stream, err error) {
	var params struct {
		Name      Tool   `json:"name"`
		Arguments Script `json:"arguments"`
		Meta      struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(m.Params, &params); err != nil {
		return nil, err
	}
	x := &execution{server: s, session: on, id: m.ID, token: params.Meta.Token, script: params.Arguments, voice: voice}
	x.ctx, x.cancel = context.WithCancel(s.ctx)
	s.mu.Lock()
	if on.ended { // since the request came in
		s.mu.Unlock()
		x.cancel()
		return nil, errEnded
	}
	s.running++
	x.run = s.Ledger.Begin(x.script.Key, params.Name, on.id, string(m.ID))
	if voice == nil {
		ids := on.path == resumable
		s.streams++
		own = newStream("s"+strconv.Itoa(s.streams), ids, x.script.Superior)
		if ids {
			on.streams[own.name] = own
		}
		own.run, x.voice = x.run, own
		_, _ = own.connect(false) // nobody else knows it
	}
	if on.used[string(m.ID)] { // spec 2025-11-25, basic, "Requests"
		s.Ledger.Break("%s: the request id %s was used before in %s", x.script.Key, m.ID, on.id)
	}
	on.used[string(m.ID)] = true
	on.calls[string(m.ID)] = x
	s.mu.Unlock()
	s.Ledger.Trace(x.script.Key, "server: %s calls with request %s", on.id, m.ID)
	s.work.Go(x.execute)
	return own, nil
}

// call begins the execution of a tool call, and serves its stream.
func (s *Server) call(w http.ResponseWriter, r *http.Request, on *session, m *message) {
	stream, err := s.begin(on, m, nil)
	switch {
	case errors.Is(err, errEnded):
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	stream.serve(r.Context(), w, 1, 0)
	s.Ledger.Trace(stream.run.key, "server: the connection of request %s is over (%v)", m.ID, r.Context().Err())
}

// execute follows the script.
func (x *execution) execute() {
	s := x.server
	defer x.cancel()
	result, err := x.follow()
	s.mu.Lock()
	delete(x.session.calls, string(x.id))
	s.running--
	s.mu.Unlock()
	if err != nil { // cancelled, or the session has ended: nobody listens
		s.Ledger.Trace(x.script.Key, "server: request %s ends without a result", x.id)
		x.voice.end()
		return
	}
	s.Ledger.Note(x.run, func(r *Run) { r.done = true })
	s.Ledger.Trace(x.script.Key, "server: request %s has a result", x.id)
	x.voice.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, x.id, result), true)
}

func (x *execution) follow() (string, error) {
	answers := 0
	for i, step := range x.script.Steps {
		if x.script.Progress && x.token != nil {
			x.voice.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, x.token, i+1), false)
		}
		select {
		case <-time.After(time.Duration(step.Work) * time.Millisecond):
		case <-x.ctx.Done():
			return "", x.ctx.Err()
		}
		questions := make([]*question, len(step.Asks))
		for n, kind := range step.Asks {
			questions[n] = x.ask(kind, fmt.Sprintf("%s/%d/%d", x.script.Key, i, n))
		}
		for _, q := range questions {
			select {
			case answer := <-q.answered:
				if !q.fits(answer) {
					x.server.Ledger.Note(x.run, func(r *Run) { r.refused = true })
					return `{"isError":true,"content":[{"type":"text","text":"given up"}]}`, nil
				}
				x.server.Ledger.Effect(x.run, q.label, answer)
				answers++
			case <-x.ctx.Done():
				return "", x.ctx.Err()
			}
		}
	}
	return fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, Finding(x.script.Key, answers)), nil
}

// Finding is the text that a call ends with.
func Finding(key string, answers int) string { return fmt.Sprintf("%s: %d answers", key, answers) }

// ask sends a question. Ids count from 0 in every session, as with the official
// TypeScript SDK.
func (x *execution) ask(kind Kind, label string) *question {
	s := x.server
	q := &question{x: x, label: label, kind: kind, answered: make(chan string, 1)}
	s.mu.Lock()
	id := strconv.Itoa(x.session.asked)
	x.session.asked++
	x.session.questions[id] = q
	s.mu.Unlock()
	s.Ledger.Trace(x.script.Key, "server: asks %s with id %s", label, id)
	params := `{}`
	switch kind {
	case Elicit:
		params = fmt.Sprintf(`{"message":%q,"requestedSchema":{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}}`, label)
	case Sampling:
		params = fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":%q}}],"maxTokens":100}`, label)
	}
	x.voice.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, kind, params), false)
	return q
}

// answer takes a response. The first one to a question counts.
func (s *Server) answer(from *session, m *message) {
	text := string(m.Result)
	if m.Error != nil {
		text = "error " + string(m.Error)
	}
	s.mu.Lock()
	q := from.questions[string(m.ID)]
	first := ""
	if q != nil {
		if first = q.answer; first == "" {
			q.answer = text
			q.answered <- text
		}
	}
	s.mu.Unlock()
	if q != nil {
		s.Ledger.Trace(q.x.script.Key, "server: is given %s for %s, before %q", text, q.label, first)
	}
	switch {
	case q == nil:
		s.Ledger.Break("an answer came for question %s of %s, which was never asked", m.ID, from.id)
	case first != "":
		s.Ledger.Again(q.x.run, q.label, first, text, m.Error != nil || isCancel(m.Result))
	}
}

func isCancel(result json.RawMessage) bool {
	var r struct{ Action string }
	return json.Unmarshal(result, &r) == nil && r.Action == "cancel"
}

// fits reports whether an answer is one, and says so when it is that to another
// question.
func (q *question) fits(answer string) bool {
	var r struct {
		Action  string
		Content struct{ Answer, Text string }
		Roots   []struct{ URI string }
	}
	if json.Unmarshal([]byte(answer), &r) != nil || r.Action == "cancel" {
		return false
	}
	got, want := "", q.label
	switch q.kind {
	case Elicit:
		got = r.Content.Answer
	case Sampling:
		got = r.Content.Text
	case Roots: // it has no params that could tell one from another
		want = "file:///" + q.x.script.Key
		if len(r.Roots) == 1 {
			got = r.Roots[0].URI
		}
	}
	if got != want {
		q.x.server.Ledger.Break("question %s (%s) was given the answer %s", q.label, q.kind, answer)
	}
	return true
}

// cancelled acts on notifications/cancelled.
func (s *Server) cancelled(on *session, params json.RawMessage) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	s.mu.Lock()
	x := on.calls[string(p.RequestID)]
	s.mu.Unlock()
	if x != nil {
		s.Ledger.Note(x.run, func(r *Run) { r.cancelled = true })
		s.Ledger.Trace(x.script.Key, "server: request %s is cancelled: %s", x.id, params)
		x.cancel()
	}
}
