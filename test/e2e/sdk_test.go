package e2e

//lint:file-ignore SA1019 sampling, roots and logging are deprecated by 2026-07-28, and in use all the same

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/test/fixture/demoserver"
)

// sdkClient is the official Go SDK's modern client, and what it was asked and
// told.
type sdkClient struct {
	*mcp.ClientSession
	progress chan *mcp.ProgressNotificationParams
	logs     chan *mcp.LoggingMessageParams
	changed  chan string

	mu    sync.Mutex
	asked []string
}

func (c *sdkClient) was(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, what)
}

// connectSDK connects a client that answers whatever it is asked.
func connectSDK(t *testing.T, g Target, listens bool) *sdkClient {
	t.Helper()
	return connectSDKOver(t, &mcp.StreamableClientTransport{Endpoint: g.URL, HTTPClient: newClient(t)}, listens)
}

func connectSDKOver(t *testing.T, transport mcp.Transport, listens bool) *sdkClient {
	t.Helper()
	c := &sdkClient{
		progress: make(chan *mcp.ProgressNotificationParams, 100),
		logs:     make(chan *mcp.LoggingMessageParams, 100),
		changed:  make(chan string, 100),
	}
	options := &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			RootsV2:     &mcp.RootCapabilities{},
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
		},
		ElicitationHandler: func(_ context.Context, request *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			c.was(request.Params.Message)
			if request.Params.Mode == "url" {
				return &mcp.ElicitResult{Action: "accept"}, nil
			}
			schema, _ := request.Params.RequestedSchema.(map[string]any)
			properties, _ := schema["properties"].(map[string]any)
			content := map[string]any{}
			for name := range properties {
				content[name] = "my " + name
			}
			if properties["guests"] != nil {
				content = map[string]any{"guests": 4, "time": "21:00"}
			}
			return &mcp.ElicitResult{Action: "accept", Content: content}, nil
		},
		CreateMessageHandler: func(_ context.Context, request *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			c.was(request.Params.Messages[0].Content.(*mcp.TextContent).Text)
			return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "Hello"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, request *mcp.ProgressNotificationClientRequest) { c.progress <- request.Params },
		LoggingMessageHandler:       func(_ context.Context, request *mcp.LoggingMessageRequest) { c.logs <- request.Params },
	}
	if listens {
		options.ToolListChangedHandler = func(context.Context, *mcp.ToolListChangedRequest) { c.changed <- "tools" }
		options.ResourceUpdatedHandler = func(_ context.Context, request *mcp.ResourceUpdatedNotificationRequest) {
			c.changed <- request.Params.URI
		}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, options)
	client.AddRoots(&mcp.Root{URI: "file:///work"}, &mcp.Root{URI: "file:///home"})
	ctx, cancel := within(t)
	defer cancel()
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: modern})
	if err != nil {
		t.Fatal(err)
	}
	c.ClientSession = session
	t.Cleanup(func() { _ = session.Close() }) // the process behind it goes away as well
	if v := session.InitializeResult().ProtocolVersion; v != modern {
		t.Fatalf("the client speaks %s, want %s", v, modern)
	}
	return c
}

func (c *sdkClient) call(t *testing.T, tool string, arguments map[string]any) string {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	params := &mcp.CallToolParams{Name: tool}
	params.Arguments = arguments // of a nil map the SDK makes null
	params.SetProgressToken("of " + tool)
	result, err := c.CallTool(ctx, params)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	text := result.Content[0].(*mcp.TextContent).Text
	if result.IsError {
		return "error: " + text
	}
	return text
}

// Everything that the demo server offers, through the official modern client.
func TestOfficialClient(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]demoserver.Settings{
		"asks on the call's stream": {},
		"asks on the GET stream":    {PushGet: true},
		"JSON bodies":               {JSON: true},
		"without event ids":         {NoEventStore: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := Start(t, Options{Upstream: Demo(t, settings)})
			c := connectSDK(t, h.Target, false)
			for _, test := range []struct {
				tool      string
				arguments map[string]any
				want      string
			}{
				{"book_table", map[string]any{"restaurant": "Pier"}, "Booked at Pier: 4 guests at 21:00. Note: Hello"},
				{"ask", nil, `{"action":"accept","content":{"guests":4,"outdoor":false,"time":"21:00"}}`},
				{"ask_twice", nil, "my name likes my colour"},
				{"ask_both", nil, "Hello, my name"},
				{"ask_hinted", map[string]any{"keys": []string{"a", "b"}}, "a=my value b=my value"},
				{"ask_roots", nil, "file:///home\nfile:///work"},
				{"ask_url", nil, "accept"},
				{"authorize", map[string]any{"key": "sdk"}, "authorized"},
				{"count", map[string]any{"key": "sdk", "asks": 2}, `{"started":1,"finished":1,"answers":["my value","my value"]}`},
				{"progress", nil, "3 steps"},
				{"big", map[string]any{"bytes": 100_000}, strings.Repeat("x", 100_000)},
				{"fail", nil, "error: the kitchen is on fire"},
			} {
				got := c.call(t, test.tool, test.arguments)
				if test.tool == "ask_roots" {
					lines := strings.Split(got, "\n")
					slices.Sort(lines)
					got = strings.Join(lines, "\n")
				}
				if got != test.want {
					t.Errorf("%s: %.200q, want %.200q", test.tool, got, test.want)
				}
			}
			if c := counted(t, h.Target, "sdk"); c.Started != 1 {
				t.Errorf("count ran %d times", c.Started)
			}
			for _, message := range []string{"Your name?", "Your colour, my name?", "Write a greeting.", "Please give your consent"} {
				if !slices.Contains(c.asked, message) {
					t.Errorf("the client was not asked %q, only %q", message, c.asked)
				}
			}
			if settings.JSON {
				return // reports travel on the GET stream then, and may come after the result
			}
			for i := range 3 + 3 {
				p := receive(t, fmt.Sprintf("progress %d", i+1), c.progress)
				if p.ProgressToken != "of book_table" && p.ProgressToken != "of progress" {
					t.Errorf("progress of %v", p.ProgressToken)
				}
			}
		})
	}
}

func TestOfficialClientListsAndReads(t *testing.T) {
	t.Parallel()
	h := Start(t, Options{Upstream: Demo(t, demoserver.Settings{})})
	c := connectSDK(t, h.Target, false)
	ctx, cancel := within(t)
	defer cancel()
	if got := c.InitializeResult(); got.Instructions == "" || got.ServerInfo.Name != "demoserver" || got.Capabilities.Tools == nil {
		t.Errorf("server/discover says %+v", got)
	}
	tools, err := c.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(tools.Tools, func(tool *mcp.Tool) bool { return tool.Name == "book_table" }) {
		t.Errorf("tools: %v", tools.Tools)
	}
	// Now that it has seen the schema, the client sends Mcp-Param-* headers.
	if got := c.call(t, "route", map[string]any{"region": "zürich", "priority": 3}); got != `routed {"priority":3,"region":"zürich"}` {
		t.Errorf("got %q", got)
	}
	resources, err := c.ListResources(ctx, nil)
	if err != nil || len(resources.Resources) != 3 {
		t.Errorf("resources: %v %v", resources, err)
	}
	templates, err := c.ListResourceTemplates(ctx, nil)
	if err != nil || len(templates.ResourceTemplates) != 1 {
		t.Errorf("templates: %v %v", templates, err)
	}
	for uri, want := range map[string]string{"demo://menu": "Soup, then fish.", "demo://secret": "You said my password.", "demo://tables/7": "Table 7"} {
		got, err := c.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		if err != nil || got.Contents[0].Text != want {
			t.Errorf("%s: %v %v", uri, got, err)
		}
	}
	var wire *jsonrpc.Error
	if _, err := c.ReadResource(ctx, &mcp.ReadResourceParams{URI: "demo://tables/0"}); !errors.As(err, &wire) || wire.Code != -32602 {
		t.Errorf("a resource that is not there: %v, want code -32602", err)
	}
	if _, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "fail_protocol"}); !errors.As(err, &wire) || wire.Code != -32099 || string(wire.Data) != `{"luck":0}` {
		t.Errorf("fail_protocol: %v", err)
	}
	prompts, err := c.ListPrompts(ctx, nil)
	if err != nil || len(prompts.Prompts) != 2 {
		t.Errorf("prompts: %v %v", prompts, err)
	}
	for name, want := range map[string]string{"welcome": "Welcome Ada", "interview": "Interview my name"} {
		got, err := c.GetPrompt(ctx, &mcp.GetPromptParams{Name: name, Arguments: map[string]string{"guest": "Ada"}})
		if err != nil || got.Messages[0].Content.(*mcp.TextContent).Text != want {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	completion, err := c.Complete(ctx, &mcp.CompleteParams{
		Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "welcome"}, Argument: mcp.CompleteParamsArgument{Name: "guest", Value: "A"},
	})
	if err != nil || !slices.Equal(completion.Completion.Values, []string{"Ada", "Alan"}) {
		t.Errorf("completion: %v %v", completion, err)
	}
}

func TestOfficialClientHearsLogs(t *testing.T) {
	t.Parallel()
	h := Start(t, Options{Upstream: Demo(t, demoserver.Settings{})})
	c := connectSDK(t, h.Target, false)
	ctx, cancel := within(t)
	defer cancel()
	params := &mcp.CallToolParams{Name: "log", Meta: mcp.Meta{mcp.MetaKeyLogLevel: "critical"}}
	if _, err := c.CallTool(ctx, params); err != nil {
		t.Fatal(err)
	}
	for _, level := range []mcp.LoggingLevel{"critical", "alert", "emergency"} {
		if got := receive(t, "log message", c.logs); got.Level != level {
			t.Errorf("a message at %s, want %s", got.Level, level)
		}
	}
	if n := len(c.logs); n != 0 {
		t.Errorf("%d more messages", n)
	}
}

func TestOfficialClientCancels(t *testing.T) {
	t.Parallel()
	h := Start(t, Options{Upstream: Demo(t, demoserver.Settings{}), Config: "stream: {after: 10m}"})
	c := connectSDK(t, h.Target, false)
	state := func() string { return h.Send(t, CallTool("slept", map[string]any{"key": "sdk"})).Text(t) }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "sleep", Arguments: map[string]any{"key": "sdk"}})
		ended <- err
	}()
	for state() != "sleeping" {
	}
	cancel()
	if err := receive(t, "end of the call", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	for state() != "cancelled" {
	}
}

func TestOfficialClientListens(t *testing.T) {
	t.Parallel()
	h := Start(t, Options{Upstream: Demo(t, demoserver.Settings{})})
	c := connectSDK(t, h.Target, true)
	ctx, cancel := within(t)
	defer cancel()
	if err := c.Subscribe(ctx, &mcp.SubscribeParams{URI: "demo://board"}); err != nil {
		t.Fatal(err)
	}
	c.call(t, "add_tool", map[string]any{"name": "fresh"})
	if got := receive(t, "change", c.changed); got != "tools" {
		t.Errorf("changed: %s", got)
	}
	if got := c.call(t, "fresh", nil); got != "I am new" {
		t.Errorf("got %q", got)
	}
	c.call(t, "touch", map[string]any{"uri": "demo://board"})
	if got := receive(t, "change", c.changed); got != "demo://board" {
		t.Errorf("changed: %s", got)
	}
}

// Clients that know each other not: each gets its own.
func TestManyOfficialClients(t *testing.T) {
	t.Parallel()
	h := Start(t, Options{Upstream: Demo(t, demoserver.Settings{})})
	var clients []*sdkClient
	for range 4 {
		clients = append(clients, connectSDK(t, h.Target, false))
	}
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for j := range 5 {
				key := fmt.Sprintf("client-%d-%d", i, j)
				ctx, cancel := within(t)
				result, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "count", Arguments: map[string]any{"key": key, "asks": 2}})
				cancel()
				if err != nil {
					t.Errorf("%s: %v", key, err)
					continue
				}
				if got := result.Content[0].(*mcp.TextContent).Text; got != `{"started":1,"finished":1,"answers":["my value","my value"]}` {
					t.Errorf("%s: %s", key, got)
				}
			}
		})
	}
	all.Wait()
}
