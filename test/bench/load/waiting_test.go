package load_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/bench/load"
)

// keeper is a server whose calls of later become tasks, or are followed by the
// dialect resumable.
type keeper struct {
	t *testing.T

	mu       sync.Mutex // guards what follows
	texts    []string   // of the calls, by their number
	looks    map[string]int
	answers  map[string]string
	answered chan string // of a followed call
	spoil    string      // put into results
}

type told struct {
	Arguments struct{ Text string }
	TaskID    string
	Token     string `json:"resumeToken"`
	Inputs    map[string]struct {
		Action  string
		Content struct{ Answer string }
	} `json:"inputResponses"`
	Meta struct {
		Capabilities struct {
			Extensions map[string]struct{}
		} `json:"io.modelcontextprotocol/clientCapabilities"`
	} `json:"_meta"`
}

func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var message struct {
		ID     json.RawMessage
		Method string
		Params told
		Result struct{ Content struct{ Answer string } }
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &message)
	}
	if err != nil {
		k.t.Error(err)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.Header.Get("Holdfast-Dialect") == "resumable" {
		k.follow(w, message.ID, message.Method, message.Params, message.Result.Content.Answer)
		return
	}
	name := message.Params.TaskID
	if message.Method == "tools/call" {
		name = "later"
	}
	if r.Header.Get("Mcp-Method") != message.Method || r.Header.Get("Mcp-Name") != name {
		k.t.Errorf("%s of %q: headers %v", message.Method, name, r.Header)
	}
	if _, ok := message.Params.Meta.Capabilities.Extensions["io.modelcontextprotocol/tasks"]; !ok {
		k.t.Errorf("%s does not declare the extension: %s", message.Method, body)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, message.ID, k.task(message.Method, message.Params))
}

func (k *keeper) task(method string, p told) string {
	id := p.TaskID
	switch method {
	case "tools/call":
		k.texts = append(k.texts, p.Arguments.Text)
		return `{"resultType":"task","taskId":"` + strconv.Itoa(len(k.texts)-1) + `","status":"working"}`
	case "tasks/update":
		for key, response := range p.Inputs {
			if key != "elicitation-"+id || response.Action != "accept" {
				k.t.Errorf("task %s: update with %v", id, p.Inputs)
			}
			k.answers[id] = response.Content.Answer
		}
		return `{"resultType":"complete"}`
	}
	k.looks[id]++
	status := `"working"`
	if answer := k.answers[id]; answer == "" {
		status = `"input_required","inputRequests":{"elicitation-` + id + `":{"method":"elicitation/create"}}`
	} else if k.looks[id] > 3 {
		status = `"completed","result":` + complete(k.text(id)+"="+answer)
	}
	return `{"resultType":"complete","taskId":"` + id + `","status":` + status + `}`
}

// text is that of the call with a number; mu is held.
func (k *keeper) text(number string) string {
	n, _ := strconv.Atoi(number)
	return k.texts[n] + k.spoil
}

func (k *keeper) follow(w http.ResponseWriter, id json.RawMessage, method string, p told, answer string) {
	if method == "" {
		w.WriteHeader(http.StatusAccepted)
		k.answered <- answer
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(format string, args ...any) {
		fmt.Fprintf(w, "data: "+format+"\n\n", args...)
		w.(http.Flusher).Flush()
	}
	if method == "tools/call" {
		k.texts = append(k.texts, p.Arguments.Text)
		send(`{"jsonrpc":"2.0","method":"notifications/requests/resumePolicy","params":{"requestId":%s,"resumeToken":"%d","maxWait":300}}`, id, len(k.texts)-1)
		return
	}
	send(`{"jsonrpc":"2.0","id":"elicitation-1~%s","method":"elicitation/create","params":{}}`, p.Token)
	k.mu.Unlock() // for the response, which comes on another connection
	answer = <-k.answered
	k.mu.Lock()
	send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, complete(k.text(p.Token)+"="+answer))
}

func startKeeper(t *testing.T) (*keeper, string) {
	t.Helper()
	k := &keeper{t: t, looks: map[string]int{}, answers: map[string]string{}, answered: make(chan string, 1)}
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	return k, server.Listener.Addr().String()
}

// waits has calls wait, and finishes them in another order; the last one gets
// another one's result.
func waits[T any](t *testing.T, k *keeper, begin func() (T, error), finish func(T) error) {
	t.Helper()
	var begun []T
	for range 4 {
		call, err := begin()
		if err != nil {
			t.Fatal(err)
		}
		begun = append(begun, call)
	}
	for _, i := range []int{2, 0, 1} {
		if err := finish(begun[i]); err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	k.mu.Lock()
	k.spoil = "-spoiled"
	k.mu.Unlock()
	if err := finish(begun[3]); err == nil || !strings.Contains(err.Error(), "spoiled") {
		t.Errorf("a wrong result: got %v", err)
	}
}

func TestTasksAreFinishedInAnyOrder(t *testing.T) {
	k, addr := startKeeper(t)
	client := load.NewTasks(addr, "/mcp", 5)
	defer client.Close()
	waits(t, k, client.Create, client.Finish)
}

func TestCallsThatWereLeftAreResumed(t *testing.T) {
	k, addr := startKeeper(t)
	client := load.NewResumable(addr, "/mcp", 5)
	defer client.Close()
	waits(t, k, client.Leave, client.Finish)
}
