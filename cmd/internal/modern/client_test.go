package modern

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestErrorsOfTheServer(t *testing.T) {
	for name, test := range map[string]struct {
		answer reply
		want   string
	}{
		"200":              {refusal(200, -32603, "broken"), "error -32603: broken"},
		"404":              {refusal(404, -32601, "no such method"), "error -32601: no such method"},
		"without id":       {reply{status: 400, body: `{"jsonrpc":"2.0","error":{"code":-32700,"message":"bad"}}`}, "error -32700: bad"},
		"with null":        {reply{status: 400, body: `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"bad"}}`}, "error -32700: bad"},
		"reason":           {reply{status: 400, body: `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"m","data":{"reason":"expired"}}}`}, "error -32602: m (reason: expired)"},
		"on a stream":      {stream("data: " + refusal(200, 5, "own").body + "\n\n"), "error 5: own"},
		"plain":            {reply{status: 503, kind: "text/plain", body: "busy"}, "HTTP 503 Service Unavailable: busy"},
		"JSON, no JSONRPC": {reply{status: 401, body: `{"error":"unauthorized"}`}, `HTTP 401 Unauthorized: {"error":"unauthorized"}`},
		"a result in 500":  {reply{status: 500, body: `{"jsonrpc":"2.0","id":ID,"result":{}}`}, "HTTP 500 Internal Server Error"},
		"redirect":         {reply{status: 307, kind: "text/plain"}, "HTTP 307 Temporary Redirect (Location: /elsewhere)"},
		"accepted":         {reply{status: 202, kind: "text/plain"}, "HTTP 202 Accepted"},
		"long page":        {reply{status: 502, kind: "text/html", body: strings.Repeat("x", 1000)}, strings.Repeat("x", 300) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			client, s := play(t, test.answer)
			_, err := client.Discover(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if len(s.posted) != 1 {
				t.Errorf("%d requests, want 1", len(s.posted))
			}
		})
	}
}

func TestDiscover(t *testing.T) {
	client, _ := play(t,
		result(`"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":"Hi","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2"}}`),
		result(`"resultType":"input_required","requestState":"x"`),
	)
	got, err := client.Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Server != (ServerInfo{Name: "s", Version: "2"}) || got.Versions[0] != Version || string(got.Capabilities) != `{"tools":{}}` || got.Instructions != "Hi" {
		t.Errorf("got %+v", got)
	}
	if _, err := client.Discover(t.Context()); !errors.Is(err, ErrBroken) {
		t.Errorf("a discover that asks: got %v, want ErrBroken", err)
	}
}

func TestListToolsOverPages(t *testing.T) {
	client, s := play(t,
		result(`"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"bad","inputSchema":{"properties":{"n":{"type":"number","x-mcp-header":"N"}}}}],"nextCursor":""`),
		result(`"tools":[{"name":"b","inputSchema":{"type":"object"}},{"name":7}]`),
	)
	list, err := client.ListTools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Tools) != 2 || len(list.Refused) != 2 || len(list.Raw) != 2 {
		t.Errorf("got %d tools, %d refused, %d raw; want 2 of each", len(list.Tools), len(list.Refused), len(list.Raw))
	}
	if cursor := string(Get(s.posted[1].Params, "cursor")); cursor != `""` {
		t.Errorf("cursor %s, want the server's", cursor)
	}
	if _, found, err := list.Find("b"); !found || err != nil {
		t.Errorf("b: found %v, %v", found, err)
	}
	if _, _, err := list.Find("bad"); err == nil {
		t.Error("a refused tool can be used")
	}
}

func TestListToolsEnds(t *testing.T) {
	replies := make([]reply, maxPages+1)
	for i := range replies {
		replies[i] = result(`"tools":[],"nextCursor":"on"`)
	}
	client, _ := play(t, replies...)
	if _, err := client.ListTools(t.Context()); !errors.Is(err, ErrBroken) {
		t.Errorf("got %v, want ErrBroken", err)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	client, _ := play(t, reply{body: strings.Repeat(" ", MaxMessage+1)})
	if _, err := client.Discover(t.Context()); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}

func TestTimeoutAndCancelCloseTheConnection(t *testing.T) {
	arrived, gone := make(chan struct{}, 2), make(chan struct{}, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server watch for the close
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		arrived <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	defer server.Close()
	client := &Client{Endpoint: server.URL, HTTP: NewHTTP(), Timeout: 100 * time.Millisecond}
	if _, err := client.Discover(t.Context()); !errors.Is(err, ErrTimeout) {
		t.Errorf("got %v, want ErrTimeout", err)
	}
	<-arrived
	<-gone

	client.Timeout = 0
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := client.Discover(ctx)
		ended <- err
	}()
	<-arrived
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	<-gone
}
