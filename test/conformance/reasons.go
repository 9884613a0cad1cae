package main

const noTasks = "the extension io.modelcontextprotocol/tasks (SEP-2663) is not offered"

// reasons say why a scenario that is not required does not pass. One that fails
// without a reason here fails the run.
var reasons = map[string]string{
	"tasks-lifecycle":              noTasks,
	"tasks-capability-negotiation": noTasks,
	"tasks-wire-fields":            noTasks,
	"tasks-request-state-removal":  noTasks,
	"tasks-mrtr-input":             noTasks,
	"tasks-request-headers":        noTasks,
	"tasks-dispatch-and-envelope":  noTasks,
	"tasks-status-notifications":   noTasks,
	"tasks-required-task-error":    noTasks,
	"tasks-mrtr-composition":       noTasks,
}
