package readme

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-mcp/holdfast/test/fixture/demoserver"
)

// binary is the program that the snippets use, built once by TestMain.
var binary string

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "curl" {
		os.Exit(playCurl())
	}
	dir, err := os.MkdirTemp("", "holdfast-readme-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "readme:", err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "holdfast")
	build := exec.Command("go", "build", "-o", binary, "github.com/holdfast-mcp/holdfast/cmd/holdfast")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "readme: building holdfast:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir) // it is a temporary directory
		os.Exit(code)
	}))
}

// addresses are where the page's servers are in a test.
type addresses struct{ upstream, proxy, admin string } // host:port

// play puts them in the place of the page's.
func (a addresses) play(text string) string {
	return strings.NewReplacer("127.0.0.1:3001", a.upstream, "127.0.0.1:8080", a.proxy, "127.0.0.1:9090", a.admin).Replace(text)
}

// serve starts the demo's server and Holdfast in front of it. Both end with
// the test.
func serve(t *testing.T) addresses {
	t.Helper()
	demo := demoserver.New(demoserver.Settings{})
	web := httptest.NewServer(demo.Handler())
	t.Cleanup(func() {
		demo.Close()
		web.CloseClientConnections()
		web.Close()
	})
	process := exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--upstream", web.URL+"/mcp",
		"--dialects.resume-token.after", "1s", "--dialects.tasks.after", "1s") // as the page has it
	process.Env = environment()
	stderr, err := process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	// It ends, and with it its log, whatever happens.
	watchdog := time.AfterFunc(10*patience, func() { _ = process.Process.Kill() })
	read := make(chan struct{})
	t.Cleanup(func() {
		defer watchdog.Stop()
		if err := process.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		<-read
		if err := process.Wait(); err != nil {
			t.Errorf("holdfast serve ended with %v", err)
		}
	})
	lines := make(chan string, 64)
	go func() {
		defer close(read)
		defer close(lines)
		for scanner := bufio.NewScanner(stderr); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			default: // nobody looks at them any more
			}
		}
	}()
	at := addresses{upstream: strings.TrimPrefix(web.URL, "http://")}
	for line := range lines {
		var entry struct{ Message, Address, Endpoint string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		switch entry.Message {
		case "admin listening":
			at.admin = entry.Address
		case "serving":
			at.proxy = strings.TrimSuffix(strings.TrimPrefix(entry.Endpoint, "http://"), "/mcp")
		}
		if at.admin != "" && at.proxy != "" {
			return at
		}
	}
	t.Fatal("holdfast serve does not listen")
	return at
}

// environment is the test's own without Holdfast's variables.
func environment() []string {
	var kept []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HOLDFAST_") {
			kept = append(kept, v)
		}
	}
	return kept
}
