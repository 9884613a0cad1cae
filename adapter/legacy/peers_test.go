package legacy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// mesh wires Servers in one process as replicas.
type mesh struct {
	t    testing.TB
	raw  *rawserver.Server
	caps Capabilities

	mu      sync.Mutex
	servers map[string]*Server
	groups  map[string]int  // replicas reach those of the same group; -1: nobody
	missing map[string]bool // replicas that have not heard for a while of one that may live
	lost    map[kind]bool   // what is told and never heard
	asked   func(kind)      // is called before a question is passed on, or nil
}

// lose has messages of a kind get lost.
func (m *mesh) lose(k kind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost = map[kind]bool{k: true}
}

// onAsk sees each question before it is passed on.
func (m *mesh) onAsk(f func(kind)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = f
}

// member is what one replica of a mesh sees of the others.
type member struct {
	mesh *mesh
	self string
}

func (p *member) Self() string { return p.self }

func (p *member) Confirmed() bool { return true }

func (p *member) Missing() bool {
	p.mesh.mu.Lock()
	defer p.mesh.mu.Unlock()
	return p.mesh.missing[p.self]
}

func (p *member) Live() []string {
	p.mesh.mu.Lock()
	defer p.mesh.mu.Unlock()
	var live []string
	for name := range p.mesh.servers {
		if name != p.self && p.mesh.groups[name] == p.mesh.groups[p.self] && p.mesh.groups[name] >= 0 {
			live = append(live, name)
		}
	}
	slices.Sort(live)
	return live
}

func (p *member) reach(replica string) *Server {
	p.mesh.mu.Lock()
	defer p.mesh.mu.Unlock()
	if p.mesh.groups[replica] != p.mesh.groups[p.self] || p.mesh.groups[replica] < 0 {
		return nil
	}
	return p.mesh.servers[replica]
}

var errNobody = errors.New("nobody answers")

func (p *member) Request(ctx context.Context, replica string, body []byte) ([]byte, error) {
	s := p.reach(replica)
	if s == nil {
		return nil, errNobody
	}
	p.mesh.mu.Lock()
	asked := p.mesh.asked
	p.mesh.mu.Unlock()
	if asked != nil {
		asked(kind(body[1]))
	}
	answered := make(chan []byte, 1)
	go func() { answered <- s.Answer(ctx, p.self, slices.Clone(body)) }()
	select {
	case answer := <-answered:
		return answer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *member) Tell(replica string, body []byte) {
	s := p.reach(replica)
	p.mesh.mu.Lock()
	lost := p.mesh.lost[kind(body[1])]
	p.mesh.mu.Unlock()
	if s != nil && !lost {
		s.Hear(p.self, body)
	}
}

// newMesh starts one replica for each name in front of raw.
func newMesh(t testing.TB, raw *rawserver.Server, change func(*Settings), names ...string) *mesh {
	m := &mesh{
		t: t, raw: raw, caps: capabilities(t, `{"elicitation":{}}`),
		servers: make(map[string]*Server), groups: make(map[string]int),
	}
	for _, name := range names {
		m.add(name, change)
	}
	return m
}

func (m *mesh) add(name string, change func(*Settings)) *Server {
	s := replica(m.t, m.raw, name, func(settings *Settings) {
		settings.StreamWait = 10 * time.Second
		settings.MaxResumes = 100
		settings.Affinity = true
		settings.Peers = &member{m, name}
		if change != nil {
			change(settings)
		}
	})
	m.mu.Lock()
	m.servers[name] = s
	m.mu.Unlock()
	return s
}

// split puts replicas into a group of their own, and tells all.
func (m *mesh) split(group int, names ...string) {
	m.mu.Lock()
	for _, name := range names {
		m.groups[name] = group
	}
	servers := make([]*Server, 0, len(m.servers))
	for _, s := range m.servers {
		servers = append(servers, s)
	}
	m.mu.Unlock()
	for _, s := range servers {
		s.PeersChanged()
	}
}

// kill ends a replica that says nothing more to anybody.
func (m *mesh) kill(name string) {
	m.split(-1, name)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m.servers[name].Close(ctx)
}

// key returns a key whose home is the first of the names, and once that is gone
// the next.
func (m *mesh) key(names ...string) *Key { return m.keyOf("caller", names...) }

// keyOf is key for another caller.
func (m *mesh) keyOf(caller string, names ...string) *Key {
	for i := range 10000 {
		key := &Key{Extra: fmt.Append(nil, caller, i), Caps: m.caps}
		digest := digestKey("test", string(key.appendText(nil)))
		first := true
		for j := 1; j < len(names); j++ {
			first = first && rank(digest, names[j-1]) > rank(digest, names[j])
		}
		if first {
			return key
		}
	}
	m.t.Fatal("no such key")
	return nil
}

// lent acquires and returns a key's session at a replica.
func (m *mesh) lent(name string, key *Key) *Session {
	m.t.Helper()
	s := mustAcquire(m.t, m.servers[name], key, false)
	s.Return(false)
	return s
}

// heldHere reports whether a replica has a session's GET stream.
func (s *Session) heldHere() bool {
	s.entry.mu.Lock()
	defer s.entry.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holder == s.server.settings.Peers.Self() && s.stands != nil
}

// entryOf returns a key's entry at a replica.
func (m *mesh) entryOf(name string, key *Key) *entry {
	e := m.servers[name].existing(key)
	if e == nil {
		m.t.Fatalf("replica %s does not know the key", name)
	}
	return e
}

func (m *mesh) primaryOf(name string, key *Key) *Session {
	e := m.entryOf(name, key)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.primarySession()
}

func TestQuestionsThatAreNotUnderstood(t *testing.T) {
	m := newMesh(t, asking(t, rawserver.Settings{}), nil, "aa", "bb")
	a := m.servers["aa"]
	for _, body := range [][]byte{nil, {1}, {2, 'L'}, {1, 'L'}, {1, '!'}, {1, 'U', 's', 200}} {
		answer, err := readParcel(a.Answer(t.Context(), "bb", body))
		if err != nil || answer.kind != sayUnknown {
			t.Errorf("%q was answered with %q, %v", body, answer.kind, err)
		}
		a.Hear("bb", body)
	}
	// And the replica goes on.
	key := m.key("aa", "bb")
	if m.lent("bb", key).id != m.lent("aa", key).id {
		t.Error("two sessions")
	}
}

// Who is asked before it has a session, or after its end, does not hang.
func TestClosedReplicaIsNotAskedForLong(t *testing.T) {
	m := newMesh(t, asking(t, rawserver.Settings{}), nil, "aa", "bb")
	key := m.key("aa", "bb")
	m.servers["aa"].Close(t.Context())
	results := make(chan error, 1)
	go func() {
		s, err := m.servers["bb"].Acquire(t.Context(), key, false, nil)
		if err == nil {
			s.Return(false)
		}
		results <- err
	}()
	eventually(t, "bb to wait", func() bool { return waiting("borrow") == 1 })
	m.split(-1, "aa")
	if err := <-results; err != nil {
		t.Error(err)
	}
	if m.servers["bb"].Answer(t.Context(), "aa", (&parcel{kind: askInfo, version: mcp.Latest}).append(nil)) == nil {
		t.Error("a question was not answered")
	}
}
