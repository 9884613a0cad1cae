package load

import (
	"fmt"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// Tasks is one modern client whose calls become tasks: spec, extension
// io.modelcontextprotocol/tasks.
type Tasks struct {
	conn   *Conn
	manner Manner
	addr   string
	path   string
	meta   string
	create *request
	body   []byte
	text   []byte
	id     uint64
}

// NewTasks returns the client of a slot, which talks to the endpoint path at addr.
func NewTasks(addr, path string, slot int) *Tasks {
	t := &Tasks{conn: NewConn(addr), manner: Manner{Tasks: true}, addr: addr, path: path, id: first + uint64(slot)*perSlot}
	t.meta = t.manner.meta()
	t.create = newRequest(t.manner.modernHead(addr, path, "tools/call", "later"), modernCall("later", t.meta))
	return t
}

// Close closes the client's connection.
func (t *Tasks) Close() { t.conn.Close() }

// Task is a call that became a task.
type Task struct {
	number call
	id     string
}

// Create calls the tool later and returns the task that it becomes.
func (t *Tasks) Create() (Task, error) {
	t.id++
	body, err := t.conn.message(t.create.with(t.id, t.id))
	if err != nil {
		return Task{}, err
	}
	result := wire.Get(body, "result")
	id := wire.Text(wire.Get(result, "taskId"))
	if string(wire.Get(result, "resultType")) != `"task"` || len(id) == 0 {
		return Task{}, fmt.Errorf("%w: no task: %s", ErrAnswer, excerpt(body))
	}
	return Task{number: call(t.id), id: string(id)}, nil
}

// looks is how often a client looks after a task that has its answer.
const looks = 2000

// Finish answers what the task asks, and looks after it until it has ended.
func (t *Tasks) Finish(task Task) error {
	result, err := t.about("tasks/get", task, "")
	if err != nil {
		return err
	}
	asked := wire.Object(wire.Get(result, "inputRequests"))
	if string(wire.Get(result, "status")) != `"input_required"` || !asked.Next() {
		return fmt.Errorf("%w: no question: %s", ErrAnswer, excerpt(result))
	}
	answer := `"inputResponses":{"` + string(asked.Name) + `":` + string(task.number.appendAnswer(nil)) + `},`
	if _, err := t.about("tasks/update", task, answer); err != nil {
		return err
	}
	for range looks {
		if result, err = t.about("tasks/get", task, ""); err != nil {
			return err
		}
		if string(wire.Get(result, "status")) != `"working"` {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if string(wire.Get(result, "status")) != `"completed"` || !task.number.asked(resultText(wire.Get(result, "result")), 0) {
		return fmt.Errorf("%w: %s", ErrAnswer, excerpt(result))
	}
	return nil
}

// about sends a request about a task and returns its result, which is valid until
// the next one; more stands before the meta.
func (t *Tasks) about(method string, task Task, more string) ([]byte, error) {
	t.id++
	t.body = fmt.Appendf(t.body[:0], `{"jsonrpc":"2.0","id":%d,"method":"%s","params":{"taskId":"%s",%s%s}}`, t.id, method, task.id, more, t.meta)
	t.text = appendMessage(t.text[:0], t.manner.modernHead(t.addr, t.path, method, task.id), t.body)
	body, err := t.conn.message(t.text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	result := wire.Get(body, "result")
	if string(wire.Get(result, "resultType")) != `"complete"` {
		return nil, fmt.Errorf("%s: %w: %s", method, ErrAnswer, excerpt(body))
	}
	return result, nil
}
