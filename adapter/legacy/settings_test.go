package legacy

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// testSettings are settings under which nothing expires during a test.
func testSettings(url string) Settings {
	return Settings{
		Name: "test", URL: url,
		ConnectTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, PostTimeout: 10 * time.Second,
		OpenTimeout: 10 * time.Second, StreamWait: 10 * time.Second,
		MaxMessage: 1 << 20, MaxLine: 1 << 20, MaxDepth: 100, MaxIdleConns: 100, IdleConnTTL: time.Minute,
		RetryMin: time.Millisecond, RetryMax: 10 * time.Millisecond, MaxResumes: 3,
		MaxSessions: 100, MaxPerKey: 10, IdleTTL: time.Hour, Queue: 100, QueueTimeout: 10 * time.Second,
		CancelWait: 2 * time.Second, MaxOrphans: 4, OrphanTTL: time.Hour, ToolsTTL: time.Hour,
		ClientName: "holdfast", ClientVersion: "test", IDPrefix: "r1",
	}
}

func capabilities(t testing.TB, raw string) *mcp.Capabilities {
	t.Helper()
	c, err := mcp.ParseCapabilities([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newTestServer returns a Server that must be closed by the test, or is at its
// end.
func newTestServer(t testing.TB, settings Settings) *Server {
	t.Helper()
	s, err := NewServer(settings, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(t.Context()) })
	return s
}
