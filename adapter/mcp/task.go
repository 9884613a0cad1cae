package mcp

// TaskSupport says whether a legacy tool runs as a task: spec 2025-11-25,
// basic/utilities/tasks, "Tool-Level Negotiation".
type TaskSupport uint8

const (
	TaskForbidden TaskSupport = iota // also where the tool says nothing
	TaskOptional
	TaskRequired // a call without the task parameter is refused
)

// ParseTaskSupport reads a tool's execution.taskSupport.
func ParseTaskSupport(s string) TaskSupport {
	switch s {
	case "optional":
		return TaskOptional
	case "required":
		return TaskRequired
	}
	return TaskForbidden
}

// TaskStatus is the state of a task: same page, "Task Status".
type TaskStatus uint8

const (
	TaskUnknown TaskStatus = iota
	TaskWorking
	TaskInputRequired
	TaskCompleted
	TaskFailed
	TaskCancelled
)

var taskStatusNames = [...]string{"", "working", "input_required", "completed", "failed", "cancelled"}

// ParseTaskStatus reads a task's status.
func ParseTaskStatus(s string) TaskStatus {
	for i, name := range taskStatusNames[1:] {
		if name == s {
			return TaskStatus(i + 1)
		}
	}
	return TaskUnknown
}

func (s TaskStatus) String() string {
	if int(s) < len(taskStatusNames) {
		return taskStatusNames[s]
	}
	return ""
}

// Ended reports whether the task will not change any more.
func (s TaskStatus) Ended() bool { return s >= TaskCompleted }
