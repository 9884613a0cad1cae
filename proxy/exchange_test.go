package proxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
)

func TestPlainAnswer(t *testing.T) {
	var got adapter.Request
	set := settings()
	set.Routes[0].Forward = []string{"X-Tenant"}
	set.PrincipalHeader = "X-User"
	s := start(t, set, &scripted{begin: func(req *adapter.Request) (*scriptedRound, error) {
		got = *req
		return newRound(result(`{"content":[]}`)), nil
	}})
	c := s.dial(t)
	for range 2 { // on one connection
		c.send(post(callBody, "Authorization: Bearer t", "X-Tenant: a", "X-User: me", "Mcp-Session-Id: s", "Last-Event-ID: 3"))
		resp, text := c.answer()
		if want := `{"jsonrpc":"2.0","id":"c1","result":{"resultType":"complete","content":[]}}`; resp.StatusCode != 200 || text != want {
			t.Fatalf("got %d %s, want 200 %s", resp.StatusCode, text, want)
		}
		if ct := resp.Header.Get("Content-Type"); ct != "application/json" {
			t.Errorf("Content-Type is %q", ct)
		}
		for _, name := range []string{"Mcp-Session-Id", "Server"} {
			if resp.Header.Get(name) != "" {
				t.Errorf("the answer has %s", name)
			}
		}
	}
	if got.Upstream != "one" || got.PrincipalHeader != "me" || got.Credentials.Authorization != "Bearer t" || got.Headers == nil ||
		len(got.Credentials.Forward) != 1 || got.Credentials.Forward[0] != (adapter.Field{Name: "X-Tenant", Value: "a"}) {
		t.Errorf("the engine got %+v", got)
	}
}

// One table for all that is refused before the engine sees it.
func TestRefusals(t *testing.T) {
	s := start(t, func() Settings {
		s := settings()
		s.MaxBody, s.MaxHeader, s.MaxDepth = 4096, 4096, 8
		return s
	}(), &scripted{begin: func(req *adapter.Request) (*scriptedRound, error) {
		t.Errorf("the engine got %s", req.Method)
		return newRound(result(`{}`)), nil
	}})
	get := func(line string) string { return line + "\r\n" + headers() + "\r\n" }
	list := body("tools/list", metaMember)
	for name, c := range map[string]struct {
		request string
		status  int
		code    int // 0: no JSON-RPC body
		id      string
	}{
		"GET":                       {get("GET /mcp HTTP/1.1"), 405, -32600, ""},
		"DELETE":                    {get("DELETE /mcp HTTP/1.1"), 405, -32600, ""},
		"unknown path":              {strings.Replace(post(callBody), "/mcp", "/other", 1), 404, 0, ""},
		"absolute form":             {strings.Replace(post(callBody), "/mcp", "http://localhost/mcp", 1), 400, -32600, ""},
		"foreign host":              {post(callBody, "Host: evil.example"), 403, -32600, ""},
		"foreign host with port":    {post(callBody, "Host: evil.example:80"), 403, -32600, ""},
		"foreign origin":            {post(callBody, "Origin: http://evil.example"), 403, -32600, ""},
		"null origin":               {post(callBody, "Origin: null"), 403, -32600, ""},
		"origin that looks local":   {post(callBody, "Origin: http://localhost.evil.example"), 403, -32600, ""},
		"two origins":               {post(callBody, "+Origin: http://localhost", "+Origin: http://localhost"), 400, -32600, `"c1"`},
		"text body":                 {post(callBody, "Content-Type: text/plain"), 415, -32600, ""},
		"no content type":           {post(callBody, "-Content-Type"), 415, -32600, ""},
		"two content types":         {post(callBody, "+Content-Type: application/json"), 400, -32600, `"c1"`},
		"compressed":                {post(callBody, "Content-Encoding: gzip"), 415, -32600, ""},
		"two authorizations":        {post(callBody, "+Authorization: a", "+authorization: b"), 400, -32600, `"c1"`},
		"folded header":             {post(callBody, "X-A: 1\r\n b"), 400, -32600, `"c1"`},
		"accept JSON only":          {post(callBody, "Accept: application/json"), 406, -32600, `"c1"`},
		"accept stream only":        {post(callBody, "Accept: text/event-stream"), 406, -32600, `"c1"`},
		"accept with q=0":           {post(callBody, "Accept: */*, text/event-stream;q=0"), 406, -32600, `"c1"`},
		"no JSON":                   {post(`{"jsonrpc":"2.0",`), 400, -32700, ""},
		"empty body":                {post(``), 400, -32700, ""},
		"batch":                     {post(`[` + callBody + `]`), 400, -32600, ""},
		"too deep":                  {post(body("tools/call", `"x":[[[[[[[[1]]]]]]]]`)), 400, -32600, `7`},
		"too large":                 {post(body("tools/call", `"x":"`+strings.Repeat("x", 5000)+`"`)), 413, -32600, ""},
		"header too large":          {post(callBody, "X-A: "+strings.Repeat("x", 5000)), 431, -32600, ""},
		"no HTTP":                   {"POST\r\n\r\n", 400, -32600, ""},
		"response":                  {post(`{"jsonrpc":"2.0","id":7,"result":{}}`), 400, -32600, ""},
		"no version header":         {post(callBody, "-MCP-Protocol-Version"), 400, -32020, `"c1"`},
		"two version headers":       {post(callBody, "+mcp-protocol-version: 2026-07-28"), 400, -32020, `"c1"`},
		"version header differs":    {post(callBody, "MCP-Protocol-Version: 2025-11-25"), 400, -32020, `"c1"`},
		"version in body differs":   {post(body("tools/call", `"_meta":{"io.modelcontextprotocol/protocolVersion":"v9"}`)), 400, -32020, `7`},
		"version not spoken":        {post(body("tools/call", `"_meta":{"io.modelcontextprotocol/protocolVersion":"v9"}`), "MCP-Protocol-Version: v9"), 400, -32022, `7`},
		"legacy request":            {post(body("tools/list", ``), "MCP-Protocol-Version: 2025-11-25", "-Mcp-Method", "-Mcp-Name"), 400, -32022, `7`},
		"legacy initialize":         {post(body("initialize", `"protocolVersion":"2025-11-25"`), "-MCP-Protocol-Version", "-Mcp-Method", "-Mcp-Name"), 400, -32022, `7`},
		"modern initialize":         {post(body("initialize", metaMember), "Mcp-Method: initialize"), 404, -32601, `7`},
		"unknown method":            {post(body("no/such", metaMember), "Mcp-Method: no/such"), 404, -32601, `7`},
		"removed method":            {post(body("ping", metaMember), "Mcp-Method: ping"), 404, -32601, `7`},
		"no _meta":                  {post(body("tools/list", ``), "Mcp-Method: tools/list"), 400, -32602, `7`},
		"no method header":          {post(callBody, "-Mcp-Method"), 400, -32020, `"c1"`},
		"method header differs":     {post(list, "Mcp-Method: prompts/list"), 400, -32020, `7`},
		"method header in capitals": {post(list, "Mcp-Method: TOOLS/LIST"), 400, -32020, `7`},
		"two method headers":        {post(list, "Mcp-Method: tools/list", "+Mcp-Method: tools/list"), 400, -32020, `7`},
		"no name header":            {post(callBody, "-Mcp-Name"), 400, -32020, `"c1"`},
		"name header differs":       {post(callBody, "Mcp-Name: sub"), 400, -32020, `"c1"`},
		"name header no Base64":     {post(callBody, "Mcp-Name: =?base64?YWRk!?="), 400, -32020, `"c1"`},
		"name header not ASCII":     {post(callBody, "Mcp-Name: \xc3\xa4"), 400, -32020, `"c1"`},
		"two param headers":         {post(callBody, "+Mcp-Param-A: 1", "+mcp-param-a: 1"), 400, -32020, `"c1"`},
		"method header in trailer": {"POST /mcp HTTP/1.1\r\n" + headers("-Mcp-Method", "Transfer-Encoding: chunked", "Trailer: Mcp-Method") + "\r\n" +
			fmt.Sprintf("%x\r\n%s\r\n0\r\nMcp-Method: tools/call\r\n\r\n", len(callBody), callBody), 400, -32020, `"c1"`},
		"listen on HTTP/1.0": {strings.Replace(post(body("subscriptions/listen", metaMember), "Mcp-Method: subscriptions/listen"), "HTTP/1.1", "HTTP/1.0", 1), 505, -32600, `7`},
	} {
		t.Run(name, func(t *testing.T) {
			client := s.dial(t)
			client.send(c.request)
			resp, text := client.answer()
			if resp.StatusCode != c.status {
				t.Errorf("status is %d, want %d; body %s", resp.StatusCode, c.status, text)
			}
			if c.status == 405 && resp.Header.Get("Allow") != "POST" {
				t.Errorf("Allow is %q", resp.Header.Get("Allow"))
			}
			if c.code == 0 {
				if strings.Contains(text, "jsonrpc") {
					t.Errorf("body is %s", text)
				}
				return
			}
			e := parseError(t, text)
			if e.Error.Code != c.code || string(e.ID) != c.id || e.Error.Message == "" {
				t.Errorf("got %s, want code %d and id %s", text, c.code, c.id)
			}
		})
	}
}

// What real clients send, and what RFC 9110 lets them.
func TestAccepted(t *testing.T) {
	s := start(t, settings(), answering(adapter.Outcome{Result: []byte(`{}`)}))
	for name, request := range map[string]string{
		"own origin":            post(callBody, "Host: 127.0.0.1:8080", "Origin: http://127.0.0.1:8080"),
		"host in capitals":      post(callBody, "Host: LOCALHOST:80"),
		"IPv6 host":             post(callBody, "Host: [::1]:8080", "Origin: https://[::1]"),
		"charset":               post(callBody, "Content-Type: Application/JSON; charset=utf-8"),
		"accept all":            post(callBody, "Accept: */*"),
		"accept types":          post(callBody, "Accept: application/*;q=0.5, text/*;q=0.1"),
		"accept in two fields":  post(callBody, "Accept: application/json", "+Accept: text/event-stream"),
		"no accept":             post(callBody, "-Accept"),
		"header names as typed": post(callBody, "-Mcp-Method", "+MCP-METHOD: tools/call"),
		"spaces around name":    post(callBody, "Mcp-Name:   add \t"),
		"name in Base64":        post(callBody, "Mcp-Name: =?base64?YWRk?="),
		"query":                 strings.Replace(post(callBody), "/mcp", "/mcp?x=1", 1),
		"resource": post(body("resources/read", `"uri":"file:///\u00e4",`+metaMember), "Mcp-Method: resources/read",
			"Mcp-Name: =?base64?ZmlsZTovLy/DpA==?="),
		"no name needed": post(body("tools/list", metaMember), "Mcp-Method: tools/list", "-Mcp-Name"),
		"chunked": "POST /mcp HTTP/1.1\r\n" + headers("Transfer-Encoding: chunked") + "\r\n" +
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(callBody), callBody),
	} {
		t.Run(name, func(t *testing.T) {
			client := s.dial(t)
			client.send(request)
			if resp, text := client.answer(); resp.StatusCode != 200 || !strings.Contains(text, `"result"`) {
				t.Errorf("got %d %s", resp.StatusCode, text)
			}
		})
	}
}

// Real clients post notifications/cancelled, one without Mcp-Method, the other
// without _meta.
func TestNotificationsAreAccepted(t *testing.T) {
	s := start(t, settings(), failing(errors.New("not to be called")))
	c := s.dial(t)
	c.send(post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "-Mcp-Method", "-Mcp-Name"))
	if resp, text := c.answer(); resp.StatusCode != 202 || text != "" {
		t.Errorf("got %d %q, want 202 without body", resp.StatusCode, text)
	}
}

func TestErrorsOfTheEngine(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		want   string // within the body
	}{
		"state": {&adapter.Refusal{Reason: adapter.ReasonStateExpired, Detail: "expired"}, 400,
			`"id":"c1","error":{"code":-32602,"message":"expired","data":{"reason":"state_expired"}}`},
		"may have run": {fmt.Errorf("call: %w", &adapter.Refusal{Reason: adapter.ReasonUpstreamLost, Detail: "lost", MayHaveRun: true}), 200,
			`"error":{"code":-32603,"message":"lost","data":{"reason":"upstream_lost","mayHaveRun":true}}`},
		"capability": {&adapter.Refusal{Reason: adapter.ReasonMissingCapability, Detail: "ask", Required: []byte(`{"sampling":{}}`)}, 400,
			`"code":-32021,"message":"ask","data":{"reason":"missing_capability","requiredCapabilities":{"sampling":{}}}`},
		"params":     {&adapter.Refusal{Reason: adapter.ReasonHeaderMismatch, Detail: "no"}, 400, `"code":-32020`},
		"envelope":   {&jsonrpc.Error{Code: -32602, Message: "bad", Data: []byte(`{"x":1}`)}, 400, `"message":"bad","data":{"x":1}`},
		"unexpected": {errors.New("secret"), 500, `"code":-32603,"message":"Internal error","data":{"reason":"internal"}`},
		"unknown reason": {&adapter.Refusal{Reason: "new", Detail: "secret"}, 500,
			`"message":"Internal error","data":{"reason":"internal"}`},
		"unauthorized": {&adapter.Unauthorized{Status: 403}, 403, `"code":-32600`},
	} {
		t.Run(name, func(t *testing.T) {
			client := start(t, settings(), failing(c.err)).dial(t)
			client.send(post(callBody))
			resp, text := client.answer()
			if resp.StatusCode != c.status || !strings.Contains(text, c.want) || strings.Contains(text, "secret") {
				t.Errorf("got %d %s, want %d %s", resp.StatusCode, text, c.status, c.want)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	for reason, status := range map[adapter.Reason]int{
		adapter.ReasonQuota: 429, adapter.ReasonOverload: 503, adapter.ReasonShutdown: 503,
	} {
		client := start(t, settings(), failing(&adapter.Refusal{Reason: reason, Detail: "x", RetryAfter: 1200 * time.Millisecond})).dial(t)
		client.send(post(callBody))
		if resp, text := client.answer(); resp.StatusCode != status || resp.Header.Get("Retry-After") != "2" {
			t.Errorf("%s: got %d, Retry-After %q, %s", reason, resp.StatusCode, resp.Header.Get("Retry-After"), text)
		}
	}
}

// Spec 2026-07-28, basic/authorization: a client learns from WWW-Authenticate
// where to get a token.
func TestUnauthorizedPassesThrough(t *testing.T) {
	client := start(t, settings(), failing(&adapter.Unauthorized{
		Status: 401, Authenticate: []string{`Bearer resource_metadata="x"`, "DPoP"}, Body: []byte("who?"), ContentType: "text/x",
	})).dial(t)
	client.send(post(callBody))
	resp, text := client.answer()
	if got := resp.Header.Values("WWW-Authenticate"); resp.StatusCode != 401 || text != "who?" ||
		resp.Header.Get("Content-Type") != "text/x" || len(got) != 2 || got[1] != "DPoP" {
		t.Errorf("got %d %v %q", resp.StatusCode, resp.Header, text)
	}
}

// An error in the server's 401 has the id under which the server knows the
// request, or none.
func TestUnauthorizedWithAnotherID(t *testing.T) {
	client := start(t, settings(), failing(&adapter.Unauthorized{
		Status: 403, Body: []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no"}}`), ContentType: "application/json",
	})).dial(t)
	client.send(post(callBody))
	if resp, text := client.answer(); resp.StatusCode != 403 || !strings.Contains(text, `"id":"c1",`) || !strings.Contains(text, `"code":-32600`) {
		t.Errorf("got %d %s", resp.StatusCode, text)
	}
}

func TestStatusOfServersErrors(t *testing.T) {
	for text, status := range map[string]int{
		`{"code":-32601,"message":"no"}`: 404, `{"code":-32602,"message":"no"}`: 200, `{"code":-32603,"message":"no"}`: 200,
		`{"code":-32021,"message":"no"}`: 400, `{"code":5,"message":"no"}`: 200,
	} {
		client := start(t, settings(), answering(adapter.Outcome{Error: []byte(text)})).dial(t)
		client.send(post(callBody))
		if resp, got := client.answer(); resp.StatusCode != status || !strings.Contains(got, `"error":`+text) {
			t.Errorf("%s: got %d %s, want %d", text, resp.StatusCode, got, status)
		}
	}
}

func TestPanicIsAnswered(t *testing.T) {
	round := newRound()
	calls := 0
	s := start(t, settings(), &scripted{begin: func(*adapter.Request) (*scriptedRound, error) {
		if calls++; calls == 1 {
			panic("secret")
		}
		round.steps <- result(`{}`)
		return round, nil
	}})
	c := s.dial(t)
	c.send(post(callBody))
	if resp, text := c.answer(); resp.StatusCode != 500 || parseError(t, text).Error.Code != -32603 || strings.Contains(text, "secret") {
		t.Errorf("got %d %s", resp.StatusCode, text)
	}
	c = s.dial(t)
	c.send(post(callBody))
	if resp, _ := c.answer(); resp.StatusCode != 200 {
		t.Errorf("after the panic: %d", resp.StatusCode)
	}
}

func TestProtectedResource(t *testing.T) {
	e := &scripted{metadata: func(upstream, suffix string) (int, string, []byte, error) {
		if upstream == "two" {
			return 0, "", nil, errors.New("down")
		}
		return 200, "application/json", []byte(upstream + " " + suffix), nil
	}}
	for _, c := range []struct {
		routes []Route
		method string
		path   string
		status int
		body   string
	}{
		{[]Route{{Path: "/mcp", Upstream: "one"}}, "GET", "", 200, "one "},
		{[]Route{{Path: "/mcp", Upstream: "one"}}, "GET", "/mcp", 200, "one /mcp"},
		{[]Route{{Path: "/mcp", Upstream: "one"}}, "POST", "/mcp", 405, "GET only\n"},
		{[]Route{{Path: "/mcp", Upstream: "one"}}, "GET", "/other", 404, "nothing is served at this path\n"},
		{[]Route{{Path: "/mcp", Upstream: "one"}}, "GET", "x", 404, "nothing is served at this path\n"},
		{[]Route{{Path: "/a", Upstream: "one"}, {Path: "/b", Upstream: "two"}}, "GET", "", 404, "nothing is served at this path\n"},
		{[]Route{{Path: "/a", Upstream: "one"}, {Path: "/b", Upstream: "two"}}, "GET", "/b", 502, "the server did not answer\n"},
	} {
		set := settings()
		set.Routes = c.routes
		client := start(t, set, e).dial(t)
		client.send(c.method + " /.well-known/oauth-protected-resource" + c.path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
		if resp, text := client.answer(); resp.StatusCode != c.status || text != c.body {
			t.Errorf("%s %s: got %d %q, want %d %q", c.method, c.path, resp.StatusCode, text, c.status, c.body)
		}
	}
}

// A modern server's error keeps the status that it came with.
func TestStatusOfAModernServer(t *testing.T) {
	for _, status := range []int{200, 400, 404, 500} {
		client := start(t, settings(), answering(adapter.Outcome{Raw: true, Status: status, Error: []byte(`{"code":-32603,"message":"x"}`)})).dial(t)
		client.send(post(callBody))
		if resp, _ := client.answer(); resp.StatusCode != status {
			t.Errorf("status %d, want %d", resp.StatusCode, status)
		}
	}
}
