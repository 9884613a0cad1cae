package bus

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// stillRequired says whether a silent peer's word is still needed for the
// lease. b.peers.mu is held.
func (b *Bus) stillRequired(r *peer, now int64) bool {
	silent := now - r.heard
	switch {
	case silent > requiredFor*b.timeout():
		return false
	case silent > b.timeout()/3 && b.peers.routes.gone(r.addr.Addr()):
		return false
	}
	return true
}

// probePeers finds out whether the processes of required peers that are silent
// are dead: then their machines refuse connections to their route port.
func (b *Bus) probePeers(now int64) {
	p := b.peers
	var silent []*peer
	unknown := false
	p.mu.Lock()
	for _, r := range p.m {
		switch {
		case r.probing || now-r.probed < b.timeout()/6:
		case r.live && !r.addr.IsValid():
			unknown = true
			r.probed = now
		case r.required && r.addr.IsValid() && now-r.heard > b.timeout()/3:
			r.probing, r.probed = true, now
			silent = append(silent, r)
		}
	}
	p.mu.Unlock()
	if unknown {
		b.learnAddresses()
	}
	for _, r := range silent {
		b.running.Go(func() { b.probe(r) }) // Close still waits for the clock, so this is in time
	}
}

// learnAddresses takes from the embedded server where the peers' routes are.
// An address is believed when it takes a connection while the peer lives:
// behind address translation the other end of a route is not where the peer
// listens, and would always refuse.
func (b *Bus) learnAddresses() {
	z, err := b.srv.Routez(nil)
	if err != nil {
		return // it is shutting down
	}
	p := b.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, route := range z.Routes {
		r := p.m[route.RemoteName]
		ip, err := netip.ParseAddr(route.IP)
		if r == nil || err != nil || r.probing || r.addr.IsValid() || r.routePort == 0 {
			continue
		}
		addr := netip.AddrPortFrom(ip.Unmap(), r.routePort)
		if route.DidSolicit {
			addr = netip.AddrPortFrom(ip.Unmap(), uint16(route.Port))
		}
		r.probing = true
		b.running.Go(func() { b.verify(r, addr) })
	}
}

func (b *Bus) verify(r *peer, addr netip.AddrPort) {
	err := dial(b.base, addr, b.s.OwnerTimeout/6)
	p := b.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	r.probing = false
	if err == nil && r.live {
		r.addr = addr
	}
}

func (b *Bus) probe(r *peer) {
	p := b.peers
	p.mu.Lock()
	addr, heard := r.addr, r.heard
	p.mu.Unlock()
	err := dial(b.base, addr, b.s.OwnerTimeout/6)
	p.mu.Lock()
	r.probing = false
	dead := errors.Is(err, syscall.ECONNREFUSED) && r.heard == heard && r.required
	if dead {
		r.required = false
	}
	p.mu.Unlock()
	if dead {
		b.log.log.Info().Str("peer", r.id).Msg("bus peer is dead: its address refuses connections")
		b.poke()
	}
}

// dial reports whether addr takes a connection.
func dial(ctx context.Context, addr netip.AddrPort, timeout time.Duration) error {
	d := net.Dialer{Timeout: timeout}
	c, err := d.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return err
	}
	return c.Close()
}
