package adapter

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
)

// Upstream is a server as clients see it: one name, and the endpoints where it
// is reached. They may be of both eras, as in a rolling upgrade.
type Upstream struct {
	Name      string
	Endpoints []Endpoint // at least one
	Cache     Cache
}

// Endpoint is one address of an upstream.
type Endpoint struct {
	// ID tells it from the others of its upstream, the same on every replica:
	// EndpointID. An only endpoint has none.
	ID       string
	Server   *legacy.Server
	Protocol Protocol
}

// Protocol says how the era of an endpoint is known.
type Protocol uint8

const (
	ProtocolAuto   Protocol = iota // asked once, and again when an answer does not fit
	ProtocolLegacy                 // it is legacy
	ProtocolModern                 // it is modern: requests are passed through
)

// EndpointID is a short digest of an endpoint's URL, or of what else tells it
// from others.
func EndpointID(url string) string {
	sum := sha256.Sum256([]byte(url))
	return hex.EncodeToString(sum[:4])
}

// PeersName is what replicas call the sessions of an endpoint among each other.
func PeersName(upstream, id string) string {
	if id == "" {
		return upstream
	}
	return upstream + "#" + id
}

// group is the endpoints of one upstream.
type group struct {
	name      string
	cache     Cache
	endpoints atomic.Pointer[[]*upstream] // never empty; the slice never changes
	only      *upstream                   // where there is one alone, for good
}

// list is all endpoints, also those that have retired.
func (g *group) list() []*upstream { return *g.endpoints.Load() }

// upstream is one endpoint, and what the engine learned of it.
type upstream struct {
	Name   string // of the upstream
	Server *legacy.Server
	Cache  Cache

	id     string // EndpointID, or ""
	group  *group
	gather gatherer
	fixed  bool          // the era is configured
	left   atomic.Int64  // when it retired, in Unix nanoseconds; zero: it has not
	era    atomic.Uint32 // a legacy.Era
	asked  atomic.Int64  // when it was last asked for its era, in Unix nanoseconds
	down   atomic.Int64  // until when it counts as away, in Unix nanoseconds

	lapses lapses

	wasModern atomic.Bool // it has said so, and was not silent to that question since

	mu      sync.Mutex
	probing *probe // in flight, or nil
}

func newGroup(u *Upstream) *group {
	g := &group{name: u.Name, cache: u.Cache}
	var list []*upstream
	for _, at := range u.Endpoints {
		list = append(list, g.endpoint(at))
	}
	g.endpoints.Store(&list)
	if len(list) == 1 && list[0].id == "" {
		g.only = list[0]
	}
	return g
}

func (g *group) endpoint(at Endpoint) *upstream {
	up := &upstream{Name: g.name, Server: at.Server, Cache: g.cache, id: at.ID, group: g, fixed: at.Protocol != ProtocolAuto}
	switch at.Protocol {
	case ProtocolLegacy:
		up.era.Store(uint32(legacy.EraLegacy))
	case ProtocolModern:
		up.era.Store(uint32(legacy.EraModern))
	}
	return up
}

// named returns the endpoint that a request state names, or nil where it is not
// configured any more. A state that names none is of the time when the upstream
// had one alone.
func (g *group) named(id string) *upstream {
	for _, up := range g.list() {
		if up.id == id || id == "" {
			return up
		}
	}
	return nil
}

// order is the endpoints for a key's requests, the best first: those that can be
// reached, each as good as its hash with the key (rendezvous hashing), so that
// every replica prefers the same one, and a caller stays on one session; then
// those that could not be reached lately.
func (g *group) order(k *legacy.Key) []*upstream {
	all := g.list()
	if g.only != nil {
		return all
	}
	now := time.Now().UnixNano()
	scores := make(map[*upstream]uint64, len(all))
	for _, up := range all {
		h := fnv.New64a()
		_, _ = h.Write(k.Principal[:])
		_, _ = h.Write(k.Extra)
		_, _ = h.Write([]byte(k.Caps.Raw))
		_, _ = h.Write([]byte(up.id))
		scores[up] = spread(h.Sum64())
	}
	order := slices.DeleteFunc(slices.Clone(all), (*upstream).retired)
	if len(order) == 0 { // none of those that are named could be made
		order = slices.Clone(all)
	}
	down := make(map[*upstream]bool, len(order)) // as it is now: it must not change while they are sorted
	for _, up := range order {
		down[up] = up.down.Load() > now
	}
	slices.SortFunc(order, func(a, b *upstream) int {
		switch {
		case down[a] != down[b] && down[a]:
			return 1
		case down[a] != down[b]:
			return -1
		case scores[a] > scores[b]:
			return -1
		}
		return 1
	})
	return order
}

// spread makes of a hash whose last bytes count little one where all do.
func spread(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// failed: the endpoint could not be reached. What comes back may be another
// server.
func (up *upstream) failed(downFor time.Duration) {
	up.down.Store(time.Now().Add(downFor).UnixNano())
	up.forget()
}

// reached: the endpoint has answered.
func (up *upstream) reached() {
	if up.down.Load() != 0 {
		up.down.Store(0)
	}
}
