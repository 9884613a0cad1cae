package modern

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// posted is a request as the scripted server saw it.
type posted struct {
	header http.Header
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
}

// reply is what the scripted server answers; ID in the body stands for the
// request's id.
type reply struct {
	status int    // 0 means 200
	kind   string // "" means application/json
	body   string
}

func result(members string) reply {
	return reply{body: `{"jsonrpc":"2.0","id":ID,"result":{` + members + `}}`}
}

func refusal(status, code int, message string) reply {
	return reply{status: status, body: fmt.Sprintf(`{"jsonrpc":"2.0","id":ID,"error":{"code":%d,"message":%q}}`, code, message)}
}

func stream(events ...string) reply {
	return reply{kind: "text/event-stream", body: strings.Join(events, "")}
}

// script answers with its replies in turn and remembers the requests.
type script struct {
	mu      sync.Mutex
	replies []reply
	posted  []posted
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	request := posted{header: r.Header.Clone()}
	if err == nil {
		err = json.Unmarshal(body, &request)
	}
	s.posted = append(s.posted, request)
	if err != nil || len(s.posted) > len(s.replies) {
		http.Error(w, "not in the script", http.StatusTeapot)
		return
	}
	next := s.replies[len(s.posted)-1]
	if next.kind == "" {
		next.kind = "application/json"
	}
	w.Header().Set("Content-Type", next.kind)
	if next.status == 0 {
		next.status = http.StatusOK
	}
	if next.status == http.StatusTemporaryRedirect {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(next.status)
	_, _ = io.WriteString(w, strings.ReplaceAll(next.body, "ID", string(request.ID)))
}

// play serves the replies and returns a client for them.
func play(t *testing.T, replies ...reply) (*Client, *script) {
	t.Helper()
	s := &script{replies: replies}
	server := httptest.NewServer(s)
	client := &Client{
		Endpoint: server.URL, Name: "test", Release: "1", HTTP: NewHTTP(), Timeout: 10 * time.Second,
		Capabilities: Capabilities{Elicitation: true},
	}
	t.Cleanup(func() {
		client.HTTP.CloseIdleConnections()
		server.Close()
	})
	return client, s
}

// answers answers every question with the same word and remembers the keys.
type answers struct{ asked []string }

func (a *answers) Answer(_ context.Context, asked InputRequest) (jsontext.Value, error) {
	a.asked = append(a.asked, asked.Key)
	return jsontext.Value(`{"action":"accept","content":{"for":` + string(Quote(asked.Key)) + `}}`), nil
}

// heard is a Listener that remembers.
type heard struct{ words []string }

func (h *heard) Progress(p Progress) {
	h.words = append(h.words, fmt.Sprintf("progress %v %s", p.Progress, p.Message))
}
func (h *heard) Log(m LogMessage)      { h.words = append(h.words, "log "+m.Level+" "+string(m.Data)) }
func (h *heard) Waiting(time.Duration) { h.words = append(h.words, "waiting") }
