package e2e

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// readiness is what /readyz says.
func readiness(t testing.TB, h *Holdfast) (code int, status string, reasons []string) {
	t.Helper()
	reply := Do(t, "GET", h.AdminURL+"/readyz", "", nil)
	var body struct {
		Status  string
		Reasons []string
	}
	if err := json.Unmarshal(reply.Body, &body); err != nil {
		t.Fatalf("/readyz: %v\n%s", err, reply.Body)
	}
	if body.Reasons == nil {
		t.Errorf("/readyz has no list of reasons: %s", reply.Body)
	}
	return reply.Status, body.Status, body.Reasons
}

// TestReady: ready means listening and at least one upstream reachable;
// degraded says what is amiss.
func TestReady(t *testing.T) {
	t.Parallel()
	a, b := newServer(t, rawserver.Settings{}), newServer(t, rawserver.Settings{})
	start := Start
	if transportOf(t) == rawserver.Stdio {
		start = StartAlone // each replica knows how its own processes have ended
	}
	h := start(t, Options{Config: `
stdio: {restart_min: 10ms}
upstreams:
- {name: first, ` + to(a).YAML() + `, path: /a}
- {name: second, ` + to(b).YAML() + `, path: /b}
`})
	ends := func(path string) {
		for i := 0; i < 3 && transportOf(t) == rawserver.Stdio; i++ { // a command is well until its processes keep ending
			h.At(path).Send(t, Request("tools/list", nil)).Fails(t, 200, -32603, "upstream_down")
		}
	}
	if code, status, reasons := readiness(t, h); code != 200 || status != "ready" || len(reasons) != 0 {
		t.Errorf("HTTP %d %s %q, want ready", code, status, reasons)
	}
	away(t, b)
	ends("/b")
	code, status, reasons := readiness(t, h)
	if code != 200 || status != "degraded" || len(reasons) != 1 || !strings.Contains(reasons[0], "second") {
		t.Errorf("HTTP %d %s %q, want degraded, and why", code, status, reasons)
	}
	away(t, a)
	ends("/a")
	code, status, reasons = readiness(t, h)
	if code != http.StatusServiceUnavailable || status != "not ready" || len(reasons) != 2 {
		t.Errorf("HTTP %d %s %q, want not ready, and why", code, status, reasons)
	}
	if reply := Do(t, "GET", h.AdminURL+"/healthz", "", nil); reply.Status != 200 {
		t.Errorf("/healthz: HTTP %d: the process is well, whatever its upstreams are", reply.Status)
	}
	if n := a.HTTPCount("POST") + b.HTTPCount("POST"); n != 0 {
		t.Errorf("%d requests reached the servers, but nobody called", n)
	}
}

// TestAdmin: what the admin listener serves, and what not.
func TestAdmin(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	h := Start(t, Options{Upstream: to(server)})
	for path, status := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/": 404, "/mcp": 404, "/debug/pprof/": 404} {
		if reply := Do(t, "GET", h.AdminURL+path, "", nil); reply.Status != status {
			t.Errorf("%s: HTTP %d, want %d", path, reply.Status, status)
		}
	}
	// Clients cannot reach it through the endpoint's listener.
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if reply := Do(t, "GET", h.Base+path, "", nil); reply.Status != 404 {
			t.Errorf("%s on the listener of clients: HTTP %d, want 404", path, reply.Status)
		}
	}
}

// TestMetrics: what was done is counted, by upstream, method and outcome.
func TestMetrics(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{})
	server.Tool("greet", greeting)
	h := Start(t, Options{Config: "upstreams: [{name: files, " + to(server).YAML() + "}]"})
	first := h.Send(t, CallTool("greet", nil))
	first.Asks(t, "elicitation-1")
	if got := gauge(t, h, "holdfast_calls_parked"); got != 1 {
		t.Errorf("holdfast_calls_parked is %v, want 1", got)
	}
	if got := gauge(t, h, "holdfast_upstream_sessions"); got != 1 {
		t.Errorf("holdfast_upstream_sessions is %v, want 1", got)
	}
	h.Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Completes(t)
	h.Send(t, CallTool("greet", nil, Param("requestState", "nonsense"))).Fails(t, 400, -32602, "state_invalid")
	for series, want := range map[string]float64{
		`holdfast_http_requests_total{method="tools/call",status="2xx",upstream="files"}`:    2,
		`holdfast_http_requests_total{method="tools/call",status="4xx",upstream="files"}`:    1,
		`holdfast_http_request_duration_seconds_count{method="tools/call",upstream="files"}`: 3,
		`holdfast_http_errors_total{reason="state_invalid"}`:                                 1,
		`holdfast_call_events_total{event="parked"}`:                                         1,
		`holdfast_upstream_sessions{upstream="files"}`:                                       1,
		`holdfast_calls_parked`:      0,
		`holdfast_listeners`:         0,
		`holdfast_undelivered_bytes`: 0,
	} {
		if got, found := h.sum(t, series); !found || got != want {
			t.Errorf("/metrics has %s %v (there: %v), want %v", series, got, found, want)
		}
	}
	for _, name := range []string{"go_goroutines", "process_open_fds"} {
		if gauge(t, h, name) < 1 {
			t.Errorf("/metrics has no %s", name)
		}
	}
	if t.Failed() {
		t.Logf("%s", Do(t, "GET", h.AdminURL+"/metrics", "", nil).Body)
	}
}

// TestSeveralUpstreams: each has a name, a URL and a path of its own, and
// shares nothing with the others.
func TestSeveralUpstreams(t *testing.T) {
	t.Parallel()
	a, b := newServer(t, rawserver.Settings{}), newServer(t, rawserver.Settings{JSON: true, NoSession: true, NoGET: !oneStream(t)})
	for name, server := range map[string]*rawserver.Server{"a": a, "b": b} {
		server.Tool("who", func(c *rawserver.Call) { c.Text(name) })
		server.Tool("greet", greeting)
	}
	h := Start(t, Options{Config: `
upstreams:
- {name: a, ` + to(a).YAML() + `, path: /a}
- {name: b, ` + to(b).YAML() + `, path: /b/mcp}
`})
	for path, want := range map[string]string{"/a": "a", "/b/mcp": "b"} {
		if got := h.At(path).Send(t, CallTool("who", nil)).Text(t); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	for _, path := range []string{"/", "/mcp", "/b", "/a/", "/b/mcp/x", "/A"} {
		if reply := h.At(path).Send(t, CallTool("who", nil)); reply.Status != 404 {
			t.Errorf("%s: HTTP %d, want 404", path, reply.Status)
		}
	}
	first := h.At("/a").Send(t, CallTool("greet", nil))
	first.Asks(t, "elicitation-1")
	h.At("/b/mcp").Retry(t, first, Answers{"elicitation-1": Accept("name", "Eve")}).Fails(t, 400, -32602, "state_foreign")
	h.At("/a").Retry(t, first, Answers{"elicitation-1": Accept("name", "Ada")}).Completes(t)
	// One server that is away does not concern the other.
	away(t, b)
	h.At("/a").Send(t, CallTool("who", nil)).Completes(t)
	h.At("/b/mcp").Send(t, CallTool("who", nil)).Fails(t, 200, -32603, "")
}

// TestAddressTaken: a process that cannot listen says so and ends.
func TestAddressTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	for name, args := range map[string][]string{
		"listen": {"--listen", taken.Addr().String()},
		"admin":  {"--listen", "127.0.0.1:0", "--admin", taken.Addr().String()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, output := runs(t, nil, append([]string{"serve", "--upstream", "http://127.0.0.1:1/mcp"}, args...)...)
			if code != 1 || !strings.Contains(output, taken.Addr().String()) {
				t.Errorf("exit code %d, want 1 and the address:\n%s", code, output)
			}
		})
	}
}

// TestMisconfigured: unknown keys and impossible values end the process before
// it begins, with an error that names the key, the value and what is allowed.
func TestMisconfigured(t *testing.T) {
	t.Parallel()
	const upstream = "http://127.0.0.1:1/mcp"
	for name, test := range map[string]struct {
		file string
		env  []string
		args []string
		want []string
	}{
		"unknown key":      {file: "sessions: {maximum: 3}", want: []string{"sessions.maximum", "3", "max_per_key"}},
		"impossible word":  {file: "sessions: {eligible: perhaps}", want: []string{"sessions.eligible", "perhaps", "overflow, queue"}},
		"impossible value": {file: "shutdown: {grace: -1s}", want: []string{"shutdown.grace", "-1s", "0s to 1h"}},
		"variable":         {env: []string{"HOLDFAST_CALLS__MAX=0"}, want: []string{"calls.max", "0", "1 to 10000000", "HOLDFAST_CALLS__MAX"}},
		"unknown variable": {env: []string{"HOLDFAST_NOTHING=1"}, want: []string{"HOLDFAST_NOTHING"}},
		"flag":             {args: []string{"--log-format", "xml"}, want: []string{"log.format", "xml", "json, console"}},
		"unknown flag":     {args: []string{"--nothing"}, want: []string{"-nothing"}},
		"no such file":     {args: []string{"--config", "/nowhere/holdfast.yaml"}, want: []string{"/nowhere/holdfast.yaml"}},
		"no such key file": {args: []string{"--state-key-file", "/nowhere/keys"}, want: []string{"state.key_file", "/nowhere/keys"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"serve", "--listen", "127.0.0.1:0", "--upstream", upstream}, test.args...)
			if test.file != "" {
				args = append(args, "--config", writeConfig(t, test.file))
			}
			code, output := runs(t, test.env, args...)
			if code == 0 {
				t.Error("exit code 0")
			}
			for _, part := range test.want {
				if !strings.Contains(output, part) {
					t.Errorf("the error does not name %s:\n%s", part, output)
				}
			}
			if strings.Contains(output, `"message":"serving"`) {
				t.Errorf("it served all the same:\n%s", output)
			}
		})
	}
	t.Run("no upstream", func(t *testing.T) {
		t.Parallel()
		code, output := runs(t, nil, "serve", "--listen", "127.0.0.1:0")
		if code == 0 || !strings.Contains(output, "upstream") {
			t.Errorf("exit code %d:\n%s", code, output)
		}
	})
}

// TestPrecedence: file, environment, flags, in that order upwards.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	file := writeConfig(t, "log: {level: error}\ncalls: {max: 11}\nstream: {buffer: 12}")
	env := []string{"HOLDFAST_CALLS__MAX=21", "HOLDFAST_STREAM__BUFFER=22", "HOLDFAST_LISTENERS__MAX=23"}
	code, output := runs(t, env, "config", "--config", file, "--stream.buffer", "32", "--upstream", "http://127.0.0.1:1/mcp")
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, output)
	}
	for _, want := range []string{"level: error", "max: 21", "buffer: 32", "max: 23"} {
		if !strings.Contains(output, want) {
			t.Errorf("the effective configuration has no %q:\n%s", want, output)
		}
	}
}
