package bus

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

// routes are the addresses that the embedded server connects to. NATS takes
// one random address of a DNS name; a name that stands for all replicas is
// therefore resolved here, and the server is told what changed.
type routes struct {
	options *server.Options // as the server was started
	user    *url.Userinfo
	own     map[netip.AddrPort]bool // this replica
	fixed   []netip.AddrPort
	names   []dnsName
	lookup  lookup

	mu      sync.Mutex // guards what follows
	answers [][]netip.Addr
	seen    map[netip.Addr]bool // in an answer, ever; bounded by maxSeen
}

type lookup func(ctx context.Context, host string) ([]netip.Addr, error)

type dnsName struct {
	host string
	port uint16
}

const maxSeen = 4096

// newRoutes takes addresses that Settings.check has passed.
func newRoutes(peers []string, port int, o *server.Options, lookup lookup) *routes {
	r := &routes{
		options: o,
		own:     ownAddresses(uint16(port)),
		seen:    map[netip.Addr]bool{},
		lookup:  lookup,
	}
	if o.Cluster.Username != "" {
		r.user = url.UserPassword(o.Cluster.Username, o.Cluster.Password)
	}
	for _, p := range peers {
		host, port, err := net.SplitHostPort(p)
		if err != nil {
			continue
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			continue
		}
		if a, err := netip.ParseAddr(host); err == nil {
			r.fixed = append(r.fixed, netip.AddrPortFrom(a.Unmap(), uint16(n)))
		} else {
			r.names = append(r.names, dnsName{host, uint16(n)})
		}
	}
	r.answers = make([][]netip.Addr, len(r.names))
	return r
}

func ownAddresses(port uint16) map[netip.AddrPort]bool {
	own := map[netip.AddrPort]bool{}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return own // the server notices a route to itself, too
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own[netip.AddrPortFrom(p.Addr().Unmap(), port)] = true
		}
	}
	return own
}

// addresses are those that are known now, each once, without the own ones.
func (r *routes) addresses() []netip.AddrPort {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.fixed)
	for i, answer := range r.answers {
		for _, a := range answer {
			all = append(all, netip.AddrPortFrom(a, r.names[i].port))
		}
	}
	all = slices.DeleteFunc(all, func(a netip.AddrPort) bool { return r.own[a] })
	slices.SortFunc(all, netip.AddrPort.Compare)
	return slices.Compact(all)
}

func (r *routes) urls(of []netip.AddrPort) []*url.URL {
	urls := make([]*url.URL, len(of))
	for i, a := range of {
		urls[i] = &url.URL{Scheme: "nats", User: r.user, Host: a.String()}
	}
	return urls
}

// follow keeps the server's routes to what DNS says, until ctx ends.
func (r *routes) follow(ctx context.Context, b *Bus) {
	every := min(max(b.s.OwnerTimeout, 500*time.Millisecond), 5*time.Second)
	again := time.NewTimer(0)
	defer again.Stop()
	set := r.addresses()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		if r.resolve(ctx, every, b.log) {
			b.poke() // a peer may be required no longer
		}
		want := r.addresses()
		for _, a := range set {
			// A route that is taken away from the server is cut, and a replica
			// that drains may leave DNS long before its calls have ended.
			if i, known := slices.BinarySearchFunc(want, a, netip.AddrPort.Compare); !known && dial(ctx, a, every/4) == nil {
				want = slices.Insert(want, i, a)
			}
		}
		// Connections made while the options change are refused.
		if !slices.Equal(want, set) && b.nc.IsConnected() {
			o := r.options.Clone()
			o.Routes = r.urls(want)
			if err := b.srv.ReloadOptions(o); err == nil {
				set = want
			} else if ctx.Err() == nil {
				b.log.warn("bus routes cannot be changed", func(e *zerolog.Event) { e.Err(err) })
			}
		}
		again.Reset(every)
	}
}

// resolve asks for all names once and reports whether an answer changed. A
// name without an answer keeps the last one: DNS may be down.
func (r *routes) resolve(ctx context.Context, timeout time.Duration, log *limited) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	changed := false
	for i, n := range r.names {
		answer, err := r.lookup(ctx, n.host)
		if err != nil || len(answer) == 0 {
			if ctx.Err() == nil {
				log.warn("bus peers cannot be resolved", func(e *zerolog.Event) { e.Str("name", n.host).Err(err) })
			}
			continue
		}
		for j := range answer {
			answer[j] = answer[j].Unmap().WithZone("")
		}
		slices.SortFunc(answer, netip.Addr.Compare)
		r.mu.Lock()
		if !slices.Equal(answer, r.answers[i]) {
			changed = true
			r.answers[i] = answer
			for _, a := range answer {
				if len(r.seen) < maxSeen {
					r.seen[a] = true
				}
			}
		}
		r.mu.Unlock()
	}
	return changed
}

// gone reports that a was in the answer for a name of the replicas and is no
// longer.
func (r *routes) gone(a netip.Addr) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.seen[a] {
		return false
	}
	for _, answer := range r.answers {
		if slices.Contains(answer, a) {
			return false
		}
	}
	return true
}
