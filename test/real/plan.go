package main

import (
	"context"
	"slices"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

// subject is what a row of the table is about.
type subject struct{ kind, name string }

// client is what a step needs; *peer.Legacy and *peer.Modern have it.
type client interface {
	// Hello returns what the server says about itself.
	Hello(ctx context.Context) (peer.Outcome, error)
	Call(ctx context.Context, r peer.Request) (peer.Outcome, error)
	Listen(ctx context.Context, f peer.Filter) (*peer.Listener, error)
	// Asked returns all that the client was asked so far.
	Asked() []peer.Question
	Close(ctx context.Context) error
}

// step is one use of a subject, the same on both sides.
type step struct {
	subject
	what  string
	masks []mask
	play  func(ctx context.Context, c client) ([]peer.Outcome, error)
	// uncovered is why the subject's own work is not tried. The step has to
	// end with the same error on both sides.
	uncovered string
}

// pair is a client on each side with the same name and capabilities, and what
// the two do in turn.
type pair struct {
	name         string
	capabilities map[string]any
	answers      peer.Answers // beside those that all clients have
	steps        []step
	directly     bool // only the legacy client: there is nothing to compare
	official     bool // through Holdfast comes the official client of the tasks extension
}

// Capabilities of clients. A tool that asks for something is offered only to
// clients that can be asked for it.
var (
	formElicitation = map[string]any{"form": map[string]any{}}
	everything      = map[string]any{"elicitation": formElicitation, "sampling": map[string]any{}, "roots": map[string]any{}}
	withoutRoots    = map[string]any{"elicitation": formElicitation, "sampling": map[string]any{}}
	nothing         = map[string]any{}
	withTasks       = map[string]any{
		"elicitation": formElicitation, "sampling": map[string]any{}, "roots": map[string]any{},
		"tasks": map[string]any{"requests": map[string]any{
			"elicitation": map[string]any{"create": map[string]any{}}, "sampling": map[string]any{"createMessage": map[string]any{}},
		}},
	}
)

// answers are what the clients say unless a step says otherwise.
var answers = peer.Answers{
	"roots/list": map[string]any{"roots": []any{
		map[string]any{"uri": "file:///srv/project", "name": "Project"}, map[string]any{"uri": "file:///srv/notes"},
	}},
	"sampling/createMessage": map[string]any{
		"role": "assistant", "model": "a-model", "stopReason": "endTurn",
		"content": map[string]any{"type": "text", "text": "Sixty-four teeth, \"roughly\"."},
	},
	"elicitation/create": map[string]any{"action": "cancel"},
}

// Names of pairs whose steps the judge looks at as a whole.
const (
	mainPair  = "main"
	tasksPair = "tasks"
)

// plan is everything that is played.
func plan() []pair {
	return []pair{
		{name: mainPair, capabilities: everything, steps: slices.Concat(lists(), tools(), prompts(), resources(), absent(), roots())},
		// Asked for before the server asks by itself, some 350 ms after the session began.
		{name: "early", capabilities: everything, steps: []step{tool("get-roots-list", nil)}},
		{name: "plain", capabilities: nothing, steps: slices.Concat(lists(), withoutCapabilities())},
		{name: "logging", capabilities: withoutRoots, steps: logging("debug")},
		{name: "quiet", capabilities: withoutRoots, steps: logging("")},
		{name: "researching", capabilities: everything, answers: interpretation, steps: research()},
		{name: "following", capabilities: everything, answers: interpretation, steps: officialSteps(), official: true},
		{name: "listening", capabilities: everything, steps: listening()},
		{name: tasksPair, capabilities: withTasks, steps: lists(), directly: true},
	}
}

// request is a step that is one request.
func request(s subject, r peer.Request, masks ...mask) step {
	return step{subject: s, masks: masks, play: func(ctx context.Context, c client) ([]peer.Outcome, error) {
		return outcomes(c.Call(ctx, r))
	}}
}

// tool is a step that is one tools/call.
func tool(name string, arguments map[string]any, masks ...mask) step {
	return request(subject{"tool", name}, toolCall(name, arguments), masks...)
}

func toolCall(name string, arguments map[string]any) peer.Request {
	params := map[string]any{"name": name}
	if arguments != nil {
		params["arguments"] = arguments
	}
	return peer.Request{Method: "tools/call", Params: params}
}

func outcomes(o peer.Outcome, err error) ([]peer.Outcome, error) {
	if err != nil {
		return nil, err
	}
	return []peer.Outcome{o}, nil
}
