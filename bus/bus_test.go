package bus

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

func TestEmbeddedAlone(t *testing.T) {
	b := open(t, Settings{Replica: "only"})
	serveEcho(b)
	if got := ask(t, b, "only", "hello"); got != "hello" {
		t.Errorf("answer %q, want hello", got)
	}
	if !b.Confirmed() || !b.Status().Connected || b.Status().Mode != Embedded {
		t.Errorf("status %+v, confirmed %v; want connected and confirmed", b.Status(), b.Confirmed())
	}
	if b.srv.Addr() != nil || b.srv.ClusterAddr() != nil {
		t.Error("the server of a replica that is alone listens on a port")
	}
	if _, err := b.Ask(t.Context(), "other", echoKind, nil); !errors.Is(err, ErrNoReplica) {
		t.Errorf("asking another: %v, want ErrNoReplica at once", err)
	}
	if _, left := b.HeardAgo("other"); !left {
		t.Error("another replica is not said to have left")
	}
	if len(b.Peers()) != 0 {
		t.Errorf("peers %v, want none", b.Peers())
	}
}

func TestClusterOfThree(t *testing.T) {
	all := cluster(t, 3, func(i int, s *Settings) {
		s.About = func() []byte { return []byte{'0' + byte(i)} }
	})
	for _, b := range all {
		serveEcho(b)
	}
	for _, from := range all {
		for _, to := range all {
			want := from.Replica() + to.Replica()
			if got := ask(t, from, to.Replica(), want); got != want {
				t.Errorf("answer %q, want %q", got, want)
			}
		}
	}
	await(t, "round trips and leases", func() bool {
		for _, b := range all {
			if !b.Status().Connected || b.Status().RoundTrip == 0 {
				return false
			}
		}
		return true
	})
	p := all[0].Peers()
	if len(p) != 2 || p[0].ID != "r1" || p[1].ID != "r2" || p[0].Version != "test" || string(p[1].About) != "2" {
		t.Errorf("peers %+v", p)
	}
	if p[0].Since.After(time.Now()) || time.Since(p[0].Since) > patience {
		t.Errorf("peer is up since %s", p[0].Since)
	}
}

// What is announced is told long before the next heartbeat is due.
func TestAnnounce(t *testing.T) {
	var about atomic.Value
	about.Store([]byte("0"))
	addresses := []string{freePort(t), freePort(t)}
	var all []*Bus
	for i, address := range addresses {
		all = append(all, open(t, Settings{
			Replica: fmt.Sprintf("r%d", i), OwnerTimeout: 2 * time.Minute, About: func() []byte { return about.Load().([]byte) },
			Cluster: Cluster{Listen: address, Peers: addresses, Secret: "s3cret"},
		}))
	}
	await(t, "the two to meet", func() bool { // what they say before they are connected is lost
		all[0].Announce()
		all[1].Announce()
		return len(all[0].Peers()) == 1 && len(all[1].Peers()) == 1
	})
	for _, news := range []string{"1", "2", "3"} { // the first may come with what replicas say that have just met
		about.Store([]byte(news))
		all[0].Announce()
		await(t, "what was announced", func() bool {
			p := all[1].Peers()
			return len(p) == 1 && string(p[0].About) == news
		})
	}
}

// Who leaves says goodbye: nobody waits for it.
func TestGoodbye(t *testing.T) {
	all := cluster(t, 2, nil)
	streams, _ := hold(t, all[1], countKind)
	s, err := all[0].Ask(t.Context(), "r1", countKind, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	within(t, streams, "stream")
	all[1].Close(t.Context())
	if _, err := recv(t, s); !errors.Is(err, ErrLost) && !errors.Is(err, ErrReset) {
		t.Errorf("stream of a peer that left: %v", err)
	}
	awaitPeers(t, all[0], 0)
	if _, left := all[0].HeardAgo("r1"); !left {
		t.Error("the peer is not said to have left")
	}
	if _, err := all[0].Ask(t.Context(), "r1", countKind, nil); !errors.Is(err, ErrLeft) {
		t.Errorf("asking it: %v, want ErrLeft", err)
	}
	if _, err := all[1].Ask(t.Context(), "r0", countKind, nil); err == nil {
		t.Error("a closed bus asks")
	}
	if !all[0].Confirmed() {
		t.Error("the one that stays lost its lease to a goodbye")
	}
}

// The bus that closes does not let go on its clients' behalf: what its peers
// do for it is lost, which parks, and not reset, which cancels.
func TestClosingLosesOwnStreams(t *testing.T) {
	all := cluster(t, 2, nil)
	streams, _ := hold(t, all[1], countKind)
	s, err := all[0].Ask(t.Context(), "r1", countKind, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := within(t, streams, "stream")
	all[0].Close(t.Context())
	if _, err := s.Recv(time.Time{}); !errors.Is(err, ErrClosed) {
		t.Errorf("own stream of a closed bus: %v, want ErrClosed", err)
	}
	within(t, h.ctx.Done(), "end of the handler's context")
	if err := causeOf(h); !errors.Is(err, ErrLost) || errors.Is(err, ErrReset) {
		t.Errorf("cause at the handler %v, want ErrLost", err)
	}
}

// A handler that is told of the end may still answer.
func TestHandlerAnswersWhileClosing(t *testing.T) {
	all := cluster(t, 2, nil)
	streams, _ := hold(t, all[1], countKind)
	all[1].Handle(echoKind, endWhenDone)
	s, err := all[0].Ask(t.Context(), "r1", echoKind, []byte("last"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	held, err := all[0].Ask(t.Context(), "r1", countKind, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	within(t, streams, "the later stream, so that the earlier one is served too")
	all[1].Close(t.Context())
	if got, err := recv(t, s); string(got) != "last" {
		t.Errorf("answer %q, %v; want last", got, err)
	}
}

func TestTell(t *testing.T) {
	all := cluster(t, 2, nil)
	got := make(chan string, 100)
	all[1].HandleTell('t', func(from string, msg []byte) { got <- from + string(msg) })
	for i := range 100 {
		if err := all[0].Tell("r1", 't', []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		if m, want := within(t, got, "tell"), "r0"+string([]byte{byte(i)}); m != want {
			t.Fatalf("message %d: %q, want %q", i, m, want)
		}
	}
	if err := all[0].Tell("r1", 't', make([]byte, all[0].chunk()+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("telling too much: %v, want ErrTooLarge", err)
	}
	if err := all[0].Tell("no.such", 't', nil); err == nil {
		t.Error("an id with a dot is a subject of its own")
	}
	if err := all[0].Tell("nobody", 't', nil); err != nil {
		t.Errorf("telling who is not there: %v, want nothing", err)
	}
}

func TestWatchStops(t *testing.T) {
	b := open(t, Settings{Replica: "only"})
	stop := b.Watch(func() {})
	stop()
	stop()
	b.Close(t.Context())
	b.Watch(func() { t.Error("called after the close") })()
}
