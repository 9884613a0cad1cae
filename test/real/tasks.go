package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

const metaRelatedTask = "io.modelcontextprotocol/related-task"

// researchTool runs only as a task of the legacy revision (spec 2025-11-25,
// basic/utilities/tasks). A legacy client drives it itself; a modern one calls
// it as any other.
const researchTool = "simulate-research-query"

// interpretation answers what the server asks about an ambiguous topic. A direct
// client may be asked between two requests, so that it has to be the client's.
var interpretation = peer.Answers{"elicitation/create": object{"action": "accept", "content": object{"interpretation": "snake"}}}

func research() []step {
	return []step{
		researching("a clear topic", object{"topic": "clocks"}),
		// Over Streamable HTTP the server cannot ask, and says so in its result.
		researching("an ambiguous topic", object{"topic": "python", "ambiguous": true}),
	}
}

func researching(what string, arguments object) step {
	s := tool(researchTool, arguments)
	s.what = what
	s.play = func(ctx context.Context, c client) ([]peer.Outcome, error) {
		r := toolCall(researchTool, arguments)
		if legacy, ok := c.(*peer.Legacy); ok {
			return outcomes(driven(ctx, legacy, r))
		}
		return outcomes(c.Call(ctx, r))
	}
	return s
}

// driven calls a tool as a task and follows the task to its result.
func driven(ctx context.Context, c *peer.Legacy, r peer.Request) (peer.Outcome, error) {
	r.Params["task"] = object{}
	before := len(c.Asked())
	created, err := c.Call(ctx, r)
	if err != nil {
		return created, err
	}
	result, _ := created.Result.(map[string]any)
	task, _ := result["task"].(map[string]any)
	params := object{"taskId": task["taskId"]}
	for {
		switch task["status"] {
		case "completed", "failed":
			o, err := c.Call(ctx, peer.Request{Method: "tasks/result", Params: params})
			o.Method = r.Method
			o.Result = withoutTask(o.Result)
			o.Asked = withoutTasks(c.Asked()[before:])
			return o, err
		case "working", "input_required":
		default:
			return created, fmt.Errorf("the task is %v", task)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return created, errors.Join(errors.New("the task does not end"), context.Cause(ctx))
		}
		got, err := c.Call(ctx, peer.Request{Method: "tasks/get", Params: params})
		if err != nil {
			return got, err
		}
		task, _ = got.Result.(map[string]any)
	}
}

// withoutTasks takes off questions whose task they are of.
func withoutTasks(asked []peer.Question) []peer.Question {
	for i, q := range asked {
		asked[i].Params = withoutTask(q.Params)
	}
	return asked
}

// withoutTask takes off a result what says whose task it is of.
func withoutTask(value any) any {
	result, ok := value.(map[string]any)
	if !ok {
		return value
	}
	meta, _ := result["_meta"].(map[string]any)
	delete(meta, metaRelatedTask)
	if len(meta) == 0 {
		delete(result, "_meta")
	}
	return result
}
