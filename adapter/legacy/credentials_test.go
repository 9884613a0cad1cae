package legacy

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

func bearer(token string) Credentials { return Credentials{{"Authorization", "Bearer " + token}} }

// The session is deleted with the credentials that used it last, wherever that
// was.
func TestDeleteHasTheNewestCredentials(t *testing.T) {
	for _, order := range [][]string{{"aa", "bb", "cc"}, {"cc", "bb", "aa"}, {"bb", "cc", "aa"}, {"bb", "aa", "cc"}} {
		raw := asking(t, rawserver.Settings{})
		m, key := onMesh(t, raw, nil)
		for _, name := range order {
			server := m.servers[name]
			s := mustAcquire(t, server, key, false)
			s.Prepare(server.NextID(), newTeller(), bearer(name), false, false, mcp.LevelNone).Finish()
			for _, other := range m.servers { // uses are further apart than the clock's grain
				e := other.existing(key)
				e.mu.Lock()
				own := e.primarySession()
				own.lastUse, own.peerUse = own.lastUse.Add(-time.Second), own.peerUse.Add(-time.Second)
				e.mu.Unlock()
			}
		}
		for _, name := range []string{"bb", "cc", "aa"} {
			m.servers[name].Close(t.Context())
			m.split(-1, name)
		}
		var got []string
		for _, r := range raw.Records() {
			if r.HTTP == http.MethodDelete {
				got = append(got, r.Header.Get("Authorization"))
			}
		}
		if want := "Bearer " + order[2]; len(got) != 1 || got[0] != want {
			t.Errorf("used by %q: deleted with %q, want %q", order, got, want)
		}
	}
}

// A request's trace goes with that request, and with nothing that is done for
// the session later.
func TestTraceIsNoCredential(t *testing.T) {
	raw := asking(t, rawserver.Settings{})
	m, key := onMesh(t, raw, nil)
	traced := func(trace string) Credentials { return append(bearer("a"), Field{"traceparent", trace}) }
	s := mustAcquire(t, m.servers["aa"], key, true)
	x := s.Prepare(m.servers["aa"].NextID(), newTeller(), traced("00-1"), true, false, mcp.LevelNone)
	if err := s.Post(t.Context(), x.creds, []byte(`{"jsonrpc":"2.0","method":"notifications/own"}`)); err != nil {
		t.Fatal(err)
	}
	x.Cancel("no longer wanted")
	x.Finish()
	raw.WaitCount(mcp.NotifyCancelled, 1)
	if got := s.Housekeeping(); !slices.Equal(got, bearer("a")) {
		t.Errorf("kept %q", got)
	}
	for _, name := range []string{"bb", "cc", "aa"} {
		m.servers[name].Close(t.Context())
		m.split(-1, name)
	}
	var with []string
	for _, r := range raw.Records() {
		if r.Header.Get("Traceparent") != "" {
			with = append(with, r.HTTP+" "+r.Messages[0].Method)
		}
	}
	if want := []string{"POST notifications/own"}; !slices.Equal(with, want) {
		t.Errorf("%q had the trace, want %q", with, want)
	}
}
