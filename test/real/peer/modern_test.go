package peer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

var identity = peer.Identity{
	Name: "test", Capabilities: map[string]any{"elicitation": map[string]any{}},
	Answers: peer.Answers{"elicitation/create": map[string]any{"action": "cancel"}, "roots/list": map[string]any{"roots": []any{}}},
}

// scripted is a server that answers the nth request with the nth answer: JSON,
// or a stream where it begins with "data:". ID stands for the request's id.
func scripted(t *testing.T, answers ...string) (url string, seen *[]map[string]any) {
	t.Helper()
	seen = new([]map[string]any)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request map[string]any
		if err == nil {
			err = json.Unmarshal(body, &request)
		}
		if err != nil || len(*seen) == len(answers) {
			t.Errorf("request %q: %v; %d answers are over", body, err, len(answers))
			return
		}
		answer := strings.ReplaceAll(answers[len(*seen)], "ID", fmt.Sprint(request["id"]))
		*seen = append(*seen, request)
		kind := "application/json"
		if strings.HasPrefix(answer, "data:") {
			kind = "text/event-stream"
		}
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, answer) // the client sees what is missing
	}))
	t.Cleanup(server.Close)
	return server.URL, seen
}

func newModern(t *testing.T, url string) *peer.Modern {
	c := peer.NewModern(url, identity)
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // closes idle connections only
	return c
}

func TestModernAnswersQuestionsInRounds(t *testing.T) {
	url, seen := scripted(t,
		`{"jsonrpc":"2.0","id":ID,"result":{"resultType":"input_required","requestState":"sealed","inputRequests":{"e":{"method":"elicitation/create","params":{"message":"m"}}}}}`,
		"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"progress-ID\",\"progress\":1}}\n\n"+
			": comment\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"resultType\":\"complete\",\"n\":1}}\n\n",
	)
	o, err := newModern(t, url).Call(t.Context(), peer.Request{Method: "tools/call", Params: map[string]any{"name": "x"}, Progress: true})
	if err != nil {
		t.Fatal(err)
	}
	want := peer.Outcome{
		Method: "tools/call", Result: map[string]any{"resultType": "complete", "n": json.Number("1")},
		Progress: []any{map[string]any{"progress": json.Number("1")}},
		Asked:    []peer.Question{{Method: "elicitation/create", Params: map[string]any{"message": "m"}}},
	}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("outcome: got %v, want %v", o, want)
	}
	retry := (*seen)[1]["params"].(map[string]any)
	if retry["requestState"] != "sealed" || retry["name"] != "x" {
		t.Errorf("retry's params: got %v, want the state and the params again", retry)
	}
	if got, want := retry["inputResponses"], map[string]any{"e": map[string]any{"action": "cancel"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("input responses: got %v, want %v", got, want)
	}
	if first, second := (*seen)[0]["id"], (*seen)[1]["id"]; first == second {
		t.Errorf("both rounds have id %v", first)
	}
}

func TestModernRefusesBrokenAnswers(t *testing.T) {
	const response = `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete"}}`
	for name, c := range map[string]struct{ answer, want string }{
		"another id":               {`{"jsonrpc":"2.0","id":77,"result":{}}`, "want 1"},
		"no response":              {"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n", peer.ErrEnded.Error()},
		"more after the response":  {"data: " + response + "\n\ndata: " + response + "\n\n", "follows the response"},
		"another's progress":       {"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"other\"}}\n\n", "token other"},
		"a request":                {"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\"}\n\n", "roots/list"},
		"no JSON":                  {"data: hello\n\n", "hello"},
		"a question without reply": {`{"jsonrpc":"2.0","id":ID,"result":{"resultType":"input_required","inputRequests":{"k":{"method":"x/y"}}}}`, "x/y"},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := scripted(t, c.answer)
			_, err := newModern(t, url).Call(t.Context(), peer.Request{Method: "tools/call", Params: map[string]any{"name": "x"}, Progress: true})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error: got %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestModernListener(t *testing.T) {
	const (
		meta         = `"_meta":{"io.modelcontextprotocol/subscriptionId":ID}`
		acknowledged = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{" + meta + ",\"notifications\":{\"resourceSubscriptions\":[\"u\"]}}}\n\n"
		updated      = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"u\"," + meta + "}}\n\n"
	)
	filter := peer.Filter{Resources: []string{"u"}}
	t.Run("update", func(t *testing.T) {
		url, _ := scripted(t, acknowledged+updated)
		l, err := newModern(t, url).Listen(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		got := <-l.Updates
		if want := (peer.Update{Method: "notifications/resources/updated", Params: map[string]any{"uri": "u"}}); !reflect.DeepEqual(got, want) {
			t.Errorf("update: got %v, want %v", got, want)
		}
		if _, open := <-l.Updates; open {
			t.Error("updates go on after the stream's end")
		}
		if err := l.Close(); !errors.Is(err, peer.ErrEnded) {
			t.Errorf("close: got %v, want ErrEnded: the server ended the stream", err)
		}
	})
	for name, c := range map[string]struct{ answer, want string }{
		"no acknowledgement":      {updated, "before the acknowledgement"},
		"another acknowledgement": {strings.Replace(acknowledged, `["u"]`, `["v"]`, 1), "acknowledged is"},
		"another subscription":    {strings.Replace(acknowledged, "ID", "9", 1), "subscription id 9"},
		"an error":                {`{"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":"no"}}`, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := scripted(t, c.answer)
			if _, err := newModern(t, url).Listen(t.Context(), filter); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error: got %v, want %q in it", err, c.want)
			}
		})
	}
}
