package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-mcp/holdfast/test/fixture/modernserver"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// sdkServer is a modern server of the official SDK, whose tool greet asks for a
// name.
func sdkServer(t *testing.T) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "add"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct{ A, B int }) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(in.A + in.B)}}}, nil, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(web.Close)
	return web.URL
}

// The SDK's client and the SDK's server understand each other with Holdfast
// between them, and no session is opened.
func TestModernServerOfTheSDK(t *testing.T) {
	t.Parallel()
	h := Start(t, Options{Upstream: atURL(sdkServer(t))})
	client := connectSDK(t, h.Target, false)
	result, err := client.CallTool(context.Background(), &mcp.CallToolParams{Name: "add", Arguments: map[string]any{"A": 1, "B": 2}})
	if err != nil || result.Content[0].(*mcp.TextContent).Text != "3" {
		t.Errorf("%+v: %v", result, err)
	}
	reply := h.Send(t, Request("server/discover", nil))
	if result := reply.Completes(t); fmt.Sprint(serverInfo(result)) != "map[name:sdk version:1]" {
		t.Errorf("server/discover: %v", result)
	}
}

// Holdfast is a modern server itself: a chain of two serves a legacy server.
func TestModernChain(t *testing.T) {
	t.Parallel()
	server := rawserver.New(t, rawserver.Settings{})
	server.Tool("greet", greeting)
	inner := Start(t, Options{Upstream: to(server)})
	outer := Start(t, Options{Config: `upstreams: [{name: outer, url: "` + inner.URL + `"}]`})
	first := outer.Send(t, CallTool("greet", nil))
	first.Asks(t, "elicitation-1")
	if got := outer.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Text(t); got != "Hello Ada" {
		t.Errorf("got %q", got)
	}
	if n := server.Count("server/discover"); n > inner.Size() {
		t.Errorf("the server was asked server/discover %d times", n)
	}
}

// One name has two endpoints: a legacy server, and the modern one that takes its
// place while calls go on. None of them fails, and what is parked at the old
// server finishes there.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	old := rawserver.New(t, rawserver.Settings{})
	old.Tool("greet", greeting)
	old.Handle("prompts/get", func(c *rawserver.Call) { c.Result(`{"messages":[],"description":"old"}`) })
	place, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := place.Addr().String()
	if err := place.Close(); err != nil { // nobody is there yet
		t.Fatal(err)
	}
	h := Start(t, Options{Config: `
upstream: {down_ttl: 50ms}
upstreams: [{url: "` + old.URL + `", endpoints: ["http://` + address + `/mcp"]}]`})

	const callers = 16
	caller := func(i int) func(*Message) { return Bearer(fmt.Sprintf("caller-%d", i)) }
	stop := make(chan struct{})
	var background sync.WaitGroup
	prompts := func(i int) *Reply {
		return h.Send(t, Request("prompts/get", map[string]any{"name": "p"}, caller(i)))
	}
	for i := range 4 {
		background.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					prompts(i).Completes(t)
				}
			}
		})
	}
	greet := func(i int) *Reply { return h.Send(t, CallTool("greet", nil, caller(i))) }
	parked := make([]*Reply, callers)
	for i := range callers {
		parked[i] = greet(i)
		parked[i].Asks(t, "elicitation-1")
	}

	successor := modernserver.NewAt(t, address)
	successor.Handle("tools/call", func(x *modernserver.Exchange) {
		if x.Param("inputResponses") == "" {
			x.Result(`{"resultType":"input_required","inputRequests":{"name":{"method":"elicitation/create","params":` + question("name") + `}},"requestState":"its own"}`)
			return
		}
		if state := x.Param("requestState"); state != `"its own"` {
			t.Errorf("the modern server got the request state %s", state)
		}
		x.Result(`{"resultType":"complete","content":[{"type":"text","text":"Hello modern"}]}`)
	})
	successor.Handle("prompts/get", func(x *modernserver.Exchange) {
		x.Result(`{"resultType":"complete","messages":[],"description":"new"}`)
	})
	for i := 0; successor.Count("prompts/get") == 0; i++ { // new calls go there as soon as it is found
		prompts(callers + i%64).Completes(t)
	}
	for i := range callers {
		if got := h.Retry(t, parked[i], Answers{"elicitation-1": Accept("name", "Ada")}, caller(i)).Text(t); got != "Hello Ada" {
			t.Errorf("parked caller %d got %q", i, got)
		}
	}

	old.Close()
	for i := range callers {
		prompts(i).Completes(t) // it may meet a connection that was cut
		first := greet(i)
		first.Asks(t, "name")
		if first.State == "its own" {
			t.Error("the modern server's request state went out without the name of its endpoint")
		}
		if got := h.Retry(t, first, Answers{"name": Accept("name", "Ada")}, caller(i)).Text(t); got != "Hello modern" {
			t.Errorf("caller %d got %q", i, got)
		}
	}
	close(stop)
	background.Wait()
	if n := old.ToolCalls("greet"); n < callers {
		t.Errorf("the old server was called %d times", n)
	}
	if n := successor.Count("initialize"); n > 0 {
		t.Errorf("the modern server was sent %d handshakes", n)
	}
}

// Each address of a name is an endpoint; the one where nobody listens is passed
// over, and the server is told the name, not the address.
func TestResolvedName(t *testing.T) {
	t.Parallel()
	server := modernserver.New(t)
	server.Handle("tools/call", func(x *modernserver.Exchange) {
		x.Result(`{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
	})
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	named := "localhost:" + u.Port()
	h := Start(t, Options{Config: `
upstream: {resolve_every: 10ms}
upstreams: [{url: "http://` + named + `/mcp", resolve: true}]`})
	for i := range 4 {
		if got := h.Send(t, CallTool("t", nil, Bearer(fmt.Sprint(i)))).Text(t); got != "done" {
			t.Errorf("got %q", got)
		}
	}
	for _, r := range server.Records("") {
		if r.Host != named {
			t.Errorf("the server was asked as %s", r.Host)
		}
	}
}
