package peer

import "maps"

// Request is one request of a client, whatever revision it speaks.
type Request struct {
	Method   string
	Params   map[string]any
	Progress bool    // ask for progress notifications
	LogLevel string  // "" asks for no log messages; of a legacy session, it leaves the level
	Answers  Answers // for this request; what it lacks, the client's own have
}

// Answers holds the result that answers a question, by the question's method.
type Answers map[string]any

// Question is what a server asks its client: an input request.
type Question struct {
	Method string
	Params any // an empty object where there are none
}

// Outcome is what came of a request. JSON is decoded with [Decode].
type Outcome struct {
	Method   string // of the request
	Result   any    // nil where Error is not
	Error    any
	Progress []any // params of the progress notifications, without the token
	Log      []any // params of the log messages
	Asked    []Question
	Updates  []Update // what a listener heard; no call fills it
}

// Update is a notification that a client asked for with Listen.
type Update struct {
	Method string
	Params any // without the subscription's id
}

// Filter says what to listen for.
type Filter struct {
	Resources            []string // URIs
	ResourcesListChanged bool
}

// Identity is who a client says it is, and what it can be asked for.
type Identity struct {
	Name         string
	Capabilities map[string]any
	Answers      Answers
}

func (i Identity) info() map[string]any {
	return map[string]any{"name": i.Name, "version": "1.0.0"}
}

// answer returns the answer to a question, and whether there is one.
func (i Identity) answer(r Request, q Question) (any, bool) {
	if answer, ok := r.Answers[q.Method]; ok {
		return answer, true
	}
	answer, ok := i.Answers[q.Method]
	return answer, ok
}

// question decodes what is asked. Absent params and empty ones say the same.
func question(method string, params any) Question {
	if params == nil {
		params = map[string]any{}
	}
	return Question{Method: method, Params: params}
}

// with returns a copy of params with one more member.
func with(params map[string]any, name string, value any) map[string]any {
	more := maps.Clone(params)
	if more == nil {
		more = map[string]any{}
	}
	more[name] = value
	return more
}

// without returns an object without one member, and that member.
func without(object any, name string) (rest, member any) {
	members, ok := object.(map[string]any)
	if !ok {
		return object, nil
	}
	rest = maps.Clone(members)
	delete(rest.(map[string]any), name)
	return rest, members[name]
}
