package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter"
)

// names follows a DNS name whose addresses are the endpoints of an upstream.
type names struct {
	upstream, url string
	every         time.Duration
	open          func(url, address, id string) (adapter.Endpoint, error)
	log           zerolog.Logger
	lookup        func(ctx context.Context, host string) ([]string, error) // nil: the system's
}

// lookupTime bounds one look-up.
const lookupTime = 5 * time.Second

// addresses returns what the name resolves to, by endpoint id.
func (n *names) addresses(ctx context.Context) (map[string]string, error) {
	u, err := url.Parse(n.url)
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %w", n.upstream, err)
	}
	port := u.Port()
	if port == "" {
		if port = "80"; u.Scheme == "https" {
			port = "443"
		}
	}
	lookup := n.lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	hosts, err := lookup(ctx, u.Hostname())
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %w", n.upstream, err)
	}
	found := make(map[string]string, len(hosts))
	for _, host := range hosts {
		address := net.JoinHostPort(host, port)
		found[adapter.EndpointID(n.url+" "+address)] = address
	}
	return found, nil
}

// first is the endpoints to begin with. Where the name cannot be looked up yet,
// it is the one endpoint itself.
func (n *names) first(ctx context.Context) ([]adapter.Endpoint, error) {
	found, err := n.addresses(ctx)
	if err != nil || len(found) == 0 {
		n.log.Warn().Err(err).Str("upstream", n.upstream).Msg("name not resolved: it is looked up again")
		found = map[string]string{adapter.EndpointID(n.url): ""}
	}
	var endpoints []adapter.Endpoint
	for id, address := range found {
		at, err := n.open(n.url, address, id)
		if err != nil {
			return nil, err
		}
		endpoints = append(endpoints, at)
	}
	return endpoints, nil
}

// again tells the engine what the name resolves to now. What is known stays
// where it resolves to nothing.
func (n *names) again(ctx context.Context, engine *adapter.Engine) {
	found, err := n.addresses(ctx)
	if err == nil {
		var ids []string
		for id := range found {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		err = engine.SetEndpoints(ctx, n.upstream, ids, func(id string) (adapter.Endpoint, error) {
			n.log.Info().Str("upstream", n.upstream).Str("address", found[id]).Msg("endpoint found")
			return n.open(n.url, found[id], id)
		})
	}
	if err != nil && ctx.Err() == nil {
		n.log.Warn().Err(err).Str("upstream", n.upstream).Msg("name not resolved: the endpoints stay as they are")
	}
}

// follow looks names up until the function that it returns is called, which
// waits for the end; more than once is fine.
func follow(ctx context.Context, engine *adapter.Engine, all []*names) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	for _, n := range all {
		looking.Add(1)
		go func() {
			defer looking.Done()
			tick := time.NewTicker(n.every)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					n.again(ctx, engine)
				}
			}
		}()
	}
	return func() {
		cancel()
		looking.Wait()
	}
}
