//lint:file-ignore SA1019 Sampling, roots and logging are deprecated, and still what is tested here.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// tableServer is a modern server on the official SDK, on a real socket, whose
// tools ask.
type tableServer struct {
	*httptest.Server
	waiting chan struct{} // the tool "wait" is running
	left    chan struct{} // closed when a client has left before its answer

	mu       sync.Mutex
	requests []*http.Request
	busy     int
}

func serveTables(t *testing.T) *tableServer {
	t.Helper()
	s := &tableServer{waiting: make(chan struct{}, 1), left: make(chan struct{})}
	server := mcp.NewServer(&mcp.Implementation{Name: "bistro", Version: "1.2.3"}, &mcp.ServerOptions{Instructions: "Book early."})
	s.addTools(server)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Clone(context.Background()))
		s.mu.Unlock()
		stop := context.AfterFunc(r.Context(), func() { close(s.left) })
		defer stop() // before the request's context ends by itself
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.Close()
		goleak.VerifyNone(t, goleak.IgnoreTopFunction("os/signal.loop"))
	})
	return s
}

// sent returns a header of the last request.
func (s *tableServer) sent(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[len(s.requests)-1].Header.Get(name)
}

const bookSchema = `{"type":"object","properties":{
	"restaurant":{"type":"string","x-mcp-header":"Restaurant"},
	"guests":{"type":"integer"},"window":{"type":"boolean"}},"required":["restaurant"]}`

const partySchema = `{"type":"object","properties":{
	"guests":{"type":"integer","title":"Guests","minimum":1,"maximum":8},
	"name":{"type":"string","minLength":2},
	"area":{"type":"string","enum":["in","out"],"enumNames":["Dining room","Terrace"],"default":"in"},
	"extras":{"type":"array","items":{"anyOf":[{"const":"cake","title":"A cake"},{"const":"hat","title":"Hats"}]},"maxItems":2},
	"mail":{"type":"string","format":"email"},
	"candle":{"type":"boolean","default":true}},
	"required":["guests","name"]}`

func (s *tableServer) addTools(server *mcp.Server) {
	add := func(name, schema string, handler mcp.ToolHandler) {
		server.AddTool(&mcp.Tool{Name: name, Description: "The tool " + name + ".", InputSchema: json.RawMessage(schema)}, handler)
	}
	add("book", bookSchema, book)
	add("ask_all", `{"type":"object"}`, askAll)
	add("fail", `{"type":"object"}`, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "closed today"}}}, nil
	})
	add("boom", `{"type":"object"}`, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "stale state", Data: json.RawMessage(`{"reason":"expired","round":3}`)}
	})
	add("show", `{"type":"object"}`, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{
			Content: []mcp.Content{
				&mcp.TextContent{Text: `{"tables": 3}`},
				&mcp.TextContent{Text: "three"},
				&mcp.ImageContent{Data: []byte("12345"), MIMEType: "image/png"},
				&mcp.ResourceLink{URI: "file:///menu", Name: "menu"},
			},
			StructuredContent: json.RawMessage(`{"tables":3}`),
		}, nil
	})
	add("busy", `{"type":"object"}`, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.busy++; s.busy == 1 {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}, RequestState: "later"}, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "state " + r.Params.RequestState}}}, nil
	})
	// The SDK does not pass a client's leaving on to the tool.
	add("wait", `{"type":"object"}`, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.waiting <- struct{}{}
		<-s.left
		return &mcp.CallToolResult{}, nil
	})
}

// book asks for the party, then for consent, and books.
func book(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if token := r.Params.GetProgressToken(); token != nil {
		progress := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1, Total: 2, Message: "looking"}
		if err := r.Session.NotifyProgress(ctx, progress); err != nil {
			return nil, err
		}
	}
	if err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Logger: "tables", Data: "a guest"}); err != nil {
		return nil, err
	}
	switch r.Params.RequestState {
	case "":
		return &mcp.CallToolResult{RequestState: "party", InputRequests: mcp.InputRequestMap{
			"party": &mcp.ElicitParams{Mode: "form", Message: "Who comes?", RequestedSchema: json.RawMessage(partySchema)},
		}}, nil
	case "party":
		answer, err := json.Marshal(r.Params.InputResponses["party"])
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{RequestState: string(answer), InputRequests: mcp.InputRequestMap{
			"consent": &mcp.ElicitParams{Mode: "url", Message: "Pay a deposit.", URL: "https://pay.example.com/deposit?table=1"},
		}}, nil
	}
	consent, ok := r.Params.InputResponses["consent"].(*mcp.ElicitResult)
	if !ok {
		return nil, errors.New("no consent")
	}
	text := fmt.Sprintf("%s %s %s", r.Params.Arguments, r.Params.RequestState, consent.Action)
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
}

// askAll asks everything at once and returns what it was told.
func askAll(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if r.Params.RequestState == "" {
		return &mcp.CallToolResult{RequestState: "asked", InputRequests: mcp.InputRequestMap{
			"places": &mcp.ListRootsParams{},
			"poem": &mcp.CreateMessageParams{MaxTokens: 50, SystemPrompt: "Be brief.", Messages: []*mcp.SamplingMessage{
				{Role: "user", Content: &mcp.TextContent{Text: "A poem, please.\x1b[2J"}}}},
		}}, nil
	}
	told, err := json.Marshal(r.Params.InputResponses)
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(told)}}}, nil
}

// ran is what a run of the command left.
type ran struct {
	code           int
	stdout, stderr string
}

// runCall runs holdfast call; typed is what the person types.
func runCall(t *testing.T, typed string, args ...string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := call(context.Background(), args, strings.NewReader(typed), &stdout, &stderr)
	return ran{code, stdout.String(), stderr.String()}
}

// runScript runs holdfast call without a person.
func runScript(t *testing.T, args ...string) ran {
	t.Helper()
	nobody, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nobody.Close() }()
	var stdout, stderr bytes.Buffer
	code := call(context.Background(), args, nobody, &stdout, &stderr)
	return ran{code, stdout.String(), stderr.String()}
}

// expect fails the test unless the run ended so and the texts occur.
func (r ran) expect(t *testing.T, code int, stdout, stderr []string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	for _, want := range stdout {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("stdout lacks %q", want)
		}
	}
	for _, want := range stderr {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("stderr lacks %q", want)
		}
	}
	if t.Failed() {
		t.Fatalf("stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
	}
}

// answerFile writes an --answers file.
func answerFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "answers.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
