package adapter

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// slowPeers has one peer, which does not answer what it is asked first.
type slowPeers struct {
	legacy.Peers
	once  sync.Once
	asked chan struct{} // closed when it is asked
}

func (p *slowPeers) Live() []string { return []string{"r9"} }

func (p *slowPeers) Request(ctx context.Context, _ string, _ []byte) ([]byte, error) {
	p.once.Do(func() {
		close(p.asked)
		<-ctx.Done()
	})
	return nil, errors.New("no answer")
}

// A client that goes while its call is about to be taken over has cancelled it
// like any other: the server is told, also that nobody answers its question.
func TestClientGoesDuringATakeOver(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 2)
	f.raw.Tool("tool", askOnce(func(c *rawserver.Call) { c.Text("done") }))
	q := toolCall("tool")
	taker := f.rigs[1]
	first := f.rigs[0].play(q)
	f.die(f.rigs[0])
	f.giveUp()
	peers := &slowPeers{Peers: NewPeers(taker.port(), taker.ring, "r2", "up"), asked: make(chan struct{})}
	settings := legacySettings("up", f.raw.URL)
	settings.IDPrefix, settings.Peers, settings.Affinity = "r2", peers, true
	server, err := legacy.NewServer(settings, taker.log)
	if err != nil {
		t.Fatal(err)
	}
	taker.upstreams()["up"].Server.Close(t.Context())
	taker.upstreams()["up"].Server = server
	v := taker.mustBegin(q.retry(first, accept("elicitation-1", "a", "x")))
	end := v.goes()
	<-peers.asked
	v.Gone()
	endOf(t, end)
	f.raw.WaitCount("notifications/cancelled", 1)
	if got := f.raw.Cancelled(); len(got) != 1 {
		t.Errorf("cancelled %s, want the one call", got)
	}
	f.raw.Wait("an answer", func() bool { return len(f.raw.Responses()) > 0 })
	if got, want := f.posted(), []string{`:0={"action":"cancel"}`}; !slices.Equal(got, want) {
		t.Errorf("the server got %s, want %s", got, want)
	}
}
