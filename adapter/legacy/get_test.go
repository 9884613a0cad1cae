package legacy

import (
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A GET stream that was refused for its credentials is opened again with those
// of the session's next use, and not with the same.
func TestGETStreamWaitsForOtherCredentials(t *testing.T) {
	p := newPool(t, nil)
	p.raw.Hook(func(x *rawserver.Exchange) bool {
		refused := x.R.Method == http.MethodGet && x.R.Header.Get("Authorization") != "Bearer new"
		if refused {
			x.Unauthorized("Bearer")
		}
		return refused
	})
	s, err := p.Acquire(t.Context(), p.key("a"), false, Credentials{{"Authorization", "Bearer old"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Return(false)
	if n := p.raw.HTTPCount(http.MethodGet); n != 1 {
		t.Errorf("%d GETs with what was refused, want 1", n)
	}
	if _, err := s.Request(t.Context(), Credentials{{"Authorization", "Bearer new"}}, mcp.MethodToolsList, nil); err != nil {
		t.Fatal(err)
	}
	p.raw.WaitHTTP(http.MethodGet, 2)
	for i, want := range []string{"Bearer old", "Bearer new"} {
		var gets []string
		for _, r := range p.raw.Records() {
			if r.HTTP == http.MethodGet {
				gets = append(gets, r.Header.Get("Authorization"))
			}
		}
		if gets[i] != want {
			t.Errorf("GET %d came with %q, want %q", i+1, gets[i], want)
		}
	}
}

// A session that is opened while its Server closes has no GET stream, and nobody
// waits for one.
func TestGETStreamOfAServerThatCloses(t *testing.T) {
	p := newPool(t, func(s *Settings) { s.StreamWait = time.Hour })
	s := p.acquire("a", false)
	defer s.Return(false)
	p.raw.WaitHTTP(http.MethodGet, 1)
	p.cancel()
	s.unhold() // the stream that stood
	select {
	case <-s.startListening(nil, nil, false):
	case <-time.After(10 * time.Second):
		t.Error("the stream that is not asked for is waited for")
	}
}
