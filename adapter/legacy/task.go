package legacy

import (
	"strconv"
	"strings"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// A tool that runs as a task (spec 2025-11-25, basic/utilities/tasks) takes
// several requests, one behind the other: the call makes the task, and another
// request waits for its result. To everybody else they are one call, which keeps
// its place on the session.

// taskTools reads what a tool says of tasks. It counts only where the server has
// declared them for tools: "Tool-Level Negotiation", 1.
func (i *Info) taskTools(tool []byte) mcp.TaskSupport {
	if !i.TaskCalls {
		return mcp.TaskForbidden
	}
	text, _ := jsonrpc.Unquote(jsonrpc.Get(jsonrpc.Get(tool, "execution"), "taskSupport"))
	return mcp.ParseTaskSupport(text)
}

// TaskSupport says whether a tool is called as a task, as far as tools/list has
// said.
//
// Hot: once per tools/call.
func (s *Session) TaskSupport(tool []byte) mcp.TaskSupport {
	if !s.info.TaskCalls {
		return mcp.TaskForbidden
	}
	t := &s.entry.tools
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tasks[string(tool)]
}

// Continues says that another request may go on with what the exchange begins:
// its place on the session stays taken until Next or Finish. also is the id of
// that request, without quotes, under which progress may come before.
func (x *Exchange) Continues(also string) {
	x.continues = true
	x.Also(also)
}

// Next registers a request that goes on with what x began, in its place on the
// session. What comes under the id also, another request's before, is for it
// too. The driver of x still calls its Finish. Finish undoes Next.
func (x *Exchange) Next(id uint64, also string) *Exchange {
	s := x.session
	next := &Exchange{sink: x.sink, id: id, askable: x.askable, eligible: x.eligible, continues: true, follows: true, creds: x.creds}
	next.session = s
	if s.channel != nil {
		next.woke = make(chan struct{}, 1)
	}
	s.mu.Lock()
	next.level = x.level
	s.calls[id] = next
	s.levels[next.level]++
	s.alias(next, also)
	s.mu.Unlock()
	if x.vacated.Swap(true) { // it was given back
		s.entry.mu.Lock()
		s.entry.lend(s, x.eligible)
		s.entry.mu.Unlock()
	}
	return next
}

// alias must be called with mu held.
func (s *Session) alias(x *Exchange, id string) {
	if s.foreign == nil {
		s.foreign = make(map[string]*Exchange)
	}
	x.also = id
	s.foreign[id] = x
}

// unalias must be called with mu held.
func (s *Session) unalias(x *Exchange) {
	if x.also != "" && s.foreign[x.also] == x {
		delete(s.foreign, x.also)
	}
}

// Also makes what comes under another id reach the exchange.
func (x *Exchange) Also(id string) {
	x.session.mu.Lock()
	defer x.session.mu.Unlock()
	x.session.alias(x, id)
}

// Expect makes the sink hear when an interaction outside the protocol is over
// that the server has asked for with an error: spec 2025-11-25,
// client/elicitation, "Completion Notifications for URL Mode Elicitation".
// Ignore undoes it.
func (s *Session) Expect(sink Sink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expecting == nil {
		s.expecting = make(map[Sink]struct{})
	}
	s.expecting[sink] = struct{}{}
}

// Ignore undoes Expect.
func (s *Session) Ignore(sink Sink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.expecting, sink)
}

// spread gives a notification to every call that it may be about; each knows its
// own tasks and elicitations.
func (s *Session) spread(m *jsonrpc.Message) {
	s.mu.Lock()
	sinks := make([]Sink, 0, len(s.calls)+len(s.expecting))
	for _, x := range s.calls {
		if x.askable {
			sinks = append(sinks, x.sink)
		}
	}
	for sink := range s.expecting {
		sinks = append(sinks, sink)
	}
	s.mu.Unlock()
	for _, sink := range sinks {
		sink.Receive(m, false)
	}
}

// AppendNewID appends an id for a request whose answer nobody waits for.
func (s *Session) AppendNewID(dst []byte) []byte { return s.server.AppendID(dst, s.server.NextID()) }

// CancelsTasks reports whether the server has tasks/cancel, or may have.
func (s *Session) CancelsTasks() bool { return s.info.TaskCancel || s.info.raw == nil }

// OwnTaskPrefix begins the names of tasks that a server has asked of its client.
const OwnTaskPrefix = "task:"

// OwnTask names the nth task that a server asks of its client in a call, given
// as in Position: what the server asks of the task finds the call by it.
func OwnTask(request string, n int) string { return OwnTaskPrefix + request + "." + strconv.Itoa(n) }

// routeTask gives what a server asks of a client's task to the call that has
// named it.
func (s *Session) routeTask(m *jsonrpc.Message) {
	name, _ := jsonrpc.Unquote(jsonrpc.Get(m.Params, "taskId"))
	call, ok := strings.CutPrefix(name, OwnTaskPrefix)
	dot := strings.LastIndexByte(call, '.')
	if ok && dot > 0 {
		if x := s.find(jsonrpc.AppendQuote(nil, call[:dot])); x != nil {
			x.sink.Receive(m, false)
			return
		}
	}
	s.refuse(m, jsonrpc.CodeInvalidParams, "Task not found")
}
