package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/demoserver"
	"github.com/holdfast-mcp/holdfast/test/fixture/legacyhttp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// transport is how servers are spoken to that tests do not say more about, by
// the environment variable HOLDFAST_E2E_UPSTREAM.
var transport = rawserver.Streamable

func chooseTransport() error {
	switch text := os.Getenv("HOLDFAST_E2E_UPSTREAM"); text {
	case "", "streamable":
	case "sse":
		transport = rawserver.SSE
	case "stdio":
		transport = rawserver.Stdio
	default:
		return fmt.Errorf("HOLDFAST_E2E_UPSTREAM is %q, allowed: streamable, sse, stdio", text)
	}
	return nil
}

// revision is what servers speak, at the newest, that tests do not say more about,
// by the environment variable HOLDFAST_E2E_REVISION.
var revision = mcp.Latest

func chooseRevision() error {
	if text := os.Getenv("HOLDFAST_E2E_REVISION"); text != "" {
		revision = text
	}
	if !slices.Contains(legacyhttp.Versions, revision) {
		return fmt.Errorf("HOLDFAST_E2E_REVISION is %q, allowed: %s", revision, strings.Join(legacyhttp.Versions, ", "))
	}
	return nil
}

// pipe is the program that connects a child's standard streams with a server in
// the test's process, built once by TestMain.
var pipe string

// pinned are the names of tests whose servers speak Streamable HTTP, whatever
// the run is about.
var pinned sync.Map

// onlyStreamable says that a test is about something that the other transports
// do not have, and what. Its servers speak Streamable HTTP in every run, and so
// do those of its subtests.
func onlyStreamable(t testing.TB, why string) {
	t.Helper()
	if why == "" {
		t.Fatal("onlyStreamable: why?")
	}
	pinned.Store(t.Name(), why)
	t.Cleanup(func() { pinned.Delete(t.Name()) })
}

// newest are the names of tests whose servers speak the newest legacy revision,
// whatever the run is about.
var newest sync.Map

// onlyNewest says that a test is about something that earlier revisions do not
// have, and what. Its servers speak the newest legacy one in every run, and so do
// those of its subtests.
func onlyNewest(t testing.TB, why string) {
	t.Helper()
	if why == "" {
		t.Fatal("onlyNewest: why?")
	}
	newest.Store(t.Name(), why)
	t.Cleanup(func() { newest.Delete(t.Name()) })
}

// revisionOf is what the servers of a test speak at the newest.
func revisionOf(t testing.TB) string {
	if marked(t, &newest) {
		return mcp.Latest
	}
	return revision
}

// versionHeader is the MCP-Protocol-Version that the servers of a test are sent
// once their session is open.
func versionHeader(t testing.TB) string {
	version := revisionOf(t)
	if !mcp.ParseRevision(version).Has(mcp.VersionHeader) {
		return ""
	}
	return version
}

// marked reports whether a test, or one that it is part of, is among some.
func marked(t testing.TB, tests *sync.Map) bool {
	for name := t.Name(); name != ""; name = name[:max(strings.LastIndexByte(name, '/'), 0)] {
		if _, is := tests.Load(name); is {
			return true
		}
	}
	return false
}

// transportOf is how the servers of a test are spoken to.
func transportOf(t testing.TB) rawserver.Transport {
	if marked(t, &pinned) {
		return rawserver.Streamable
	}
	return transport
}

// newServer starts a server that speaks the transport and the revision of the run,
// unless the test has said which.
func newServer(t testing.TB, s rawserver.Settings) *rawserver.Server {
	t.Helper()
	if s.Transport == rawserver.Streamable {
		s.Transport = transportOf(t)
	}
	if s.Version == "" {
		s.Version = revisionOf(t)
	}
	server := rawserver.New(t, s)
	heardIsValid(t, server)
	t.Cleanup(func() { // Holdfast has ended by now
		server.Wait("the end of all its processes", func() bool { return server.Bridges() == 0 })
	})
	return server
}

// oneStream reports whether a session of the test's servers has one stream for
// everything: whose calls may be asked something get a session each while they
// are concurrent.
func oneStream(t testing.TB) bool { return transportOf(t) != rawserver.Streamable }

// Upstream is where a server is: at a URL, or behind a command.
type Upstream struct {
	URL     string
	Command []string
}

// atURL is a server at a URL.
func atURL(url string) Upstream { return Upstream{URL: url} }

// to is where a server is. flags are those of test/fixture/pipe.
func to(server *rawserver.Server, flags ...string) Upstream {
	if server.URL != "" {
		return Upstream{URL: server.URL}
	}
	return Upstream{Command: server.Command(pipe, flags...)}
}

// YAML are the settings that say where it is, for one of upstreams[] in the
// configuration.
func (u Upstream) YAML() string {
	if u.Command == nil {
		return "url: " + yamlText(u.URL)
	}
	args, err := json.Marshal(u.Command[1:])
	if err != nil {
		panic(err) // texts always can be
	}
	return "command: " + yamlText(u.Command[0]) + ", args: " + string(args)
}

func yamlText(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a text always can be
	}
	return string(text)
}

// apply makes the upstream the only one of a process.
func (u Upstream) apply(config string, args []string) (string, []string) {
	switch {
	case u.Command != nil:
		upstreams := "upstreams: [{" + u.YAML() + "}]"
		if inner, flow := strings.CutPrefix(strings.TrimSpace(config), "{"); flow {
			return "{" + upstreams + ", " + inner + "\n", args
		}
		return strings.TrimSuffix(config, "\n") + "\n" + upstreams + "\n", args
	case u.URL != "":
		return config, append(args, "--upstream", u.URL)
	}
	return config, args
}

// Demo starts the demo's legacy server, of the official SDK, over the transport
// of the run.
func Demo(t testing.TB, settings demoserver.Settings) Upstream {
	t.Helper()
	if settings.Version == "" {
		settings.Version = revisionOf(t)
	}
	server := demoserver.New(settings)
	var handler http.Handler
	switch transportOf(t) {
	case rawserver.Stdio:
		return demoChild(t, server)
	case rawserver.SSE:
		handler = server.SSEHandler()
	default:
		handler = server.Handler()
	}
	web := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.Close()
		web.CloseClientConnections()
		web.Close()
	})
	return atURL(web.URL + "/mcp")
}

// demoChild has each connection of test/fixture/pipe be a session.
func demoChild(t testing.TB, server *demoserver.Server) Upstream {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server.Stdio()
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			served.Go(func() {
				defer conn.Close()
				_ = server.ServeConn(conn) // it breaks off where Holdfast's processes are killed
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // nobody else has it
		server.Close()
		served.Wait()
	})
	return Upstream{Command: []string{pipe, listener.Addr().String()}}
}
