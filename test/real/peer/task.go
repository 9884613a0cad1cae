package peer

import (
	"fmt"
	"maps"
	"time"
)

// A legacy client may be asked as a task (spec 2025-11-25,
// basic/utilities/tasks): it names the task, and the server comes for the
// answer. This one has each answer at once.

// withTasks adds to what a client can be asked that it may be asked as tasks.
func withTasks(capabilities map[string]any) map[string]any {
	requests := map[string]any{}
	if _, ok := capabilities["elicitation"]; ok {
		requests["elicitation"] = map[string]any{"create": map[string]any{}}
	}
	if _, ok := capabilities["sampling"]; ok {
		requests["sampling"] = map[string]any{"createMessage": map[string]any{}}
	}
	if len(requests) == 0 {
		return capabilities
	}
	more := maps.Clone(capabilities)
	more["tasks"] = map[string]any{"cancel": map[string]any{}, "requests": requests}
	return more
}

// task is a task as the server sees it.
func task(id, status string) map[string]any {
	now := time.Now().UTC().Format(time.RFC3339)
	return map[string]any{"taskId": id, "status": status, "createdAt": now, "lastUpdatedAt": now, "ttl": nil, "pollInterval": 1000}
}

// keep names a task whose answer is known. mu is held.
func (c *Legacy) keep(answer any) map[string]any {
	id := fmt.Sprintf("task-%d", len(c.tasks)+1)
	if c.tasks == nil {
		c.tasks = map[string]any{}
	}
	members, _ := answer.(map[string]any)
	members = maps.Clone(members)
	members["_meta"] = map[string]any{"io.modelcontextprotocol/related-task": map[string]any{"taskId": id}}
	c.tasks[id] = members
	return map[string]any{"task": task(id, "working")}
}

// serve answers what the server asks of a task; nil where there is none.
func (c *Legacy) serve(method string, params any) any {
	members, _ := params.(map[string]any)
	id, _ := members["taskId"].(string)
	c.mu.Lock()
	defer c.mu.Unlock()
	answer, known := c.tasks[id]
	switch {
	case !known:
		return nil
	case method == "tasks/get":
		return task(id, "completed")
	}
	return answer
}
