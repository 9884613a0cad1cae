package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/dialect"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/legacy/child"
	"github.com/holdfast-mcp/holdfast/adapter/state"
	"github.com/holdfast-mcp/holdfast/config"
	"github.com/holdfast-mcp/holdfast/proxy"
	"github.com/holdfast-mcp/holdfast/proxy/downstream"
	"github.com/holdfast-mcp/holdfast/proxy/stdio"
)

// serve runs the proxy until ctx ends, and then stops within shutdown.grace: over
// HTTP, or, unless std is nil, for the client at its ends until it leaves.
func serve(ctx context.Context, c *config.Config, environ []string, std *streams, stderr io.Writer) error {
	log := newLogger(c.Log, stderr)
	raiseFiles(log)
	defer runtime.KeepAlive(newHeapFloor())
	var running sync.WaitGroup
	defer running.Wait()
	asked := ctx // ends with a signal
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	ring, err := keyRing(ctx, c.State, log, &running)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	replica := replicaID()
	peers, err := openBus(c, replica, log)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		peers.close(ctx)
	}()
	guard, err := startGuard(c)
	if err != nil {
		return err
	}
	defer guard.Close()
	var spoken *dialect.Set // over standard input and output, MRTR alone
	if std == nil {
		spoken = dialects(&c.Dialects, c.Calls.MaxDuration+c.Calls.ParkTTL)
	}
	engine, resolving, err := newEngine(ctx, c, environ, guard, replica, peers, spoken, ring, log, registry)
	if err != nil {
		return err
	}
	stopLooking := follow(ctx, engine, resolving)
	defer stopLooking()
	defer peers.serve(engine)()
	ended := make(chan error, 2)
	var front front
	var run func() error
	endpoint := ""
	down := func(ctx context.Context, err error) error {
		stopLooking()
		return errors.Join(err, shutdown(ctx, c.Shutdown, engine, front, log))
	}
	if std != nil {
		server := stdio.New(stdioSettings(c), downstream.Behind(engine), std.in, std.out, log)
		front, run = server, server.Serve
	} else {
		server := proxy.New(proxySettings(c, spoken), downstream.Behind(engine), log, registry)
		front = server
		listener, err := net.Listen("tcp", c.Listen)
		if err != nil {
			return down(context.Background(), fmt.Errorf("listen: %w", err))
		}
		defer func() { _ = listener.Close() }() // if it has not come to Serve
		run = func() error { return server.Serve(listener) }
		endpoint = "http://" + listener.Addr().String()
	}
	if c.Admin != "" {
		adminListener, err := net.Listen("tcp", c.Admin)
		if err != nil {
			return down(context.Background(), fmt.Errorf("listen for admin: %w", err))
		}
		admin := proxy.NewAdmin(front.Ready, peers.replicas, c.Profiling, registry, log)
		running.Add(1)
		go func() {
			defer running.Done()
			if err := admin.Serve(adminListener); err != nil {
				ended <- fmt.Errorf("admin: %w", err)
			}
		}()
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = admin.Shutdown(ctx) // nothing of worth runs there
		}()
		log.Info().Stringer("address", adminListener.Addr()).Msg("admin listening")
	}
	running.Add(1)
	go func() {
		defer running.Done()
		ended <- run()
	}()
	for _, u := range c.Upstreams {
		line := log.Info().Str("upstream", u.Name)
		if u.Command != "" {
			line.Str("command", u.Command) // not its arguments, which may hold a secret
		} else {
			line.Str("url", u.ShownURL())
		}
		if std == nil {
			line.Str("endpoint", endpoint+u.Path)
		}
		line.Msg("serving")
	}
	select {
	case <-asked.Done():
		log.Info().Dur("delay", c.Shutdown.Delay).Dur("grace", c.Shutdown.Grace).Msg("stopping")
		return down(context.Background(), nil)
	case err := <-ended:
		if std != nil {
			// Nobody has to notice that it stops; and a client that has closed its end
			// and then asks once more, by a signal, has waited long enough.
			c.Shutdown.Delay = 0
			log.Info().Dur("grace", c.Shutdown.Grace).Msg("the client has left, stopping")
			return down(asked, err)
		}
		return down(context.Background(), err)
	}
}

// front is a side towards clients.
type front interface {
	Ready(ctx context.Context) (bool, []string)
	Shutdown(ctx context.Context) error
}

// shutdown ends the calls, which have all of shutdown.grace, then the connections,
// both at once when ctx ends.
// Before that it gives load balancers time to notice that the replica is no longer
// ready.
func shutdown(ctx context.Context, c config.Shutdown, engine *adapter.Engine, front front, log zerolog.Logger) error {
	engine.Leave()
	if c.Delay > 0 {
		time.Sleep(c.Delay)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Grace+adapter.Farewell(c.Grace))
	defer cancel()
	var fronts sync.WaitGroup
	fronts.Add(1)
	var err error
	go func() { // it waits for the requests that the engine ends
		defer fronts.Done()
		err = front.Shutdown(ctx)
	}()
	engine.Shutdown(ctx)
	fronts.Wait()
	if err != nil {
		log.Warn().Err(err).Msg("not everything had ended within shutdown.grace")
	}
	log.Info().Msg("stopped")
	return nil
}

func newEngine(ctx context.Context, c *config.Config, environ []string, guard *child.Guard, replica string, peers *link, spoken *dialect.Set, ring *state.Ring, log zerolog.Logger, reg prometheus.Registerer) (*adapter.Engine, []*names, error) {
	var upstreams []adapter.Upstream
	var resolving []*names
	for _, u := range c.Upstreams {
		up := adapter.Upstream{Name: u.Name, Cache: adapter.Cache{TTLMillis: u.Cache.TTL.Milliseconds(), Scope: u.Cache.Scope}}
		open := func(url, address, id string) (adapter.Endpoint, error) {
			settings := upstreamSettings(c, u, environ, guard, log)
			settings.URL, settings.Address = url, address
			settings.IDPrefix = replica
			settings.Affinity = c.Sessions.Affinity == config.AffinityHome
			settings.Peers = adapter.NewPeers(peers, ring, replica, adapter.PeersName(u.Name, id))
			server, err := legacy.NewServer(settings, log)
			return adapter.Endpoint{ID: id, Server: server, Protocol: protocolOf(u)}, err
		}
		if u.Resolve {
			n := &names{upstream: u.Name, url: u.URL, every: c.Upstream.ResolveEvery, open: open, log: log}
			endpoints, err := n.first(ctx)
			if err != nil {
				return nil, nil, err
			}
			up.Endpoints = endpoints
			resolving = append(resolving, n)
		} else {
			for _, url := range append([]string{u.URL}, u.Endpoints...) {
				id := ""
				if len(u.Endpoints) > 0 {
					id = adapter.EndpointID(url)
				}
				at, err := open(url, "", id)
				if err != nil {
					return nil, nil, err
				}
				up.Endpoints = append(up.Endpoints, at)
			}
		}
		upstreams = append(upstreams, up)
	}
	settings := adapter.Settings{
		Replica: replica,
		Timeout: c.Calls.Timeout, MaxDuration: c.Calls.MaxDuration, Gather: c.Calls.Gather,
		ParkTTL: c.Calls.ParkTTL, OutcomeTTL: c.Calls.OutcomeTTL, MaxOutcomeBytes: int64(c.Calls.MaxOutcomeBytes),
		MaxCalls: c.Calls.Max, MaxParked: c.Calls.MaxParked, MaxParkedPerPrincipal: c.Calls.MaxParkedPerPrincipal,
		MaxRounds: c.Calls.MaxRounds, MaxInputs: c.Calls.MaxInputs, MaxState: int(c.State.MaxBytes),
		DownTTL: c.Upstream.DownTTL, MaxHold: c.Calls.MaxHold, ReleaseAfter: c.Calls.ReleaseAfter, MaxReleased: c.Calls.MaxReleased,
		OwnKey: c.State.KeyFile == "" && len(c.State.Keys) == 0,
		Bus:    peers, BusRequired: c.Bus.Required, ParamHeaders: proxy.ParamHeaders,
		Buffer: c.Stream.Buffer, BufferBytes: int(c.Stream.BufferBytes),
		MaxLasting: c.Dialects.Tasks.Max, MaxLastingPerPrincipal: c.Dialects.Tasks.MaxPerPrincipal,
		MaxUndelivered: c.Dialects.Resumable.MaxMessages, MaxUndeliveredBytes: int(c.Dialects.Resumable.MaxBytes),
		MaxUndeliveredOverall: int64(c.Dialects.Resumable.MaxTotalBytes),
		LastingOnly:           c.Dialects.Tasks.Enabled && c.Dialects.Tasks.Required == config.TasksRefuse,
		Extensions:            extensions(&c.Dialects, spoken),
		MaxListeners:          c.Listeners.Max, MaxListenersPerPrincipal: c.Listeners.MaxPerPrincipal, MaxURIs: c.Listeners.MaxURIs,
	}
	switch c.Sessions.Scope {
	case config.ScopeShared:
		settings.Scope = adapter.ScopeShared
	case config.ScopeCall:
		settings.Scope = adapter.ScopeCall
	}
	switch c.Sessions.Anonymous {
	case config.AnonymousShared:
		settings.Anonymous = adapter.AnonymousShared
	case config.AnonymousCall:
		settings.Anonymous = adapter.AnonymousCall
	}
	switch c.Calls.Replay {
	case config.ReplayAlways:
		settings.Replay = adapter.ReplayAlways
	case config.ReplayNever:
		settings.Replay = adapter.ReplayNever
	}
	peers.register(reg)
	return adapter.NewEngine(settings, upstreams, ring, log, adapter.NewMetrics(reg)), resolving, nil
}

// protocolOf is an upstream's protocol. What is not spoken to over Streamable HTTP
// is legacy, and not asked.
func protocolOf(u config.Upstream) adapter.Protocol {
	if u.Command != "" || u.Transport == config.TransportSSE {
		return adapter.ProtocolLegacy
	}
	return protocols[u.Protocol]
}

var protocols = map[string]adapter.Protocol{
	config.ProtocolAuto: adapter.ProtocolAuto, config.ProtocolLegacy: adapter.ProtocolLegacy, config.ProtocolModern: adapter.ProtocolModern,
}

// replicaID names this process among its peers and in upstream request ids.
func replicaID() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails, says crypto/rand
	return hex.EncodeToString(b[:])
}

// upstreamSettings are legacySettings with the command, where the upstream is one.
func upstreamSettings(c *config.Config, u config.Upstream, environ []string, guard *child.Guard, log zerolog.Logger) legacy.Settings {
	settings := legacySettings(c, u)
	if u.Command == "" {
		return settings
	}
	var missing []string
	settings.Transport = legacy.TransportStdio
	settings.Command, missing = commandSettings(c, u, environ)
	settings.Command.Guard = guard
	for _, name := range missing {
		log.Warn().Str("upstream", u.Name).Str("variable", name).Msg("a variable that the upstream's command is to inherit is not set")
	}
	return settings
}

func legacySettings(c *config.Config, u config.Upstream) legacy.Settings {
	s := legacy.Settings{
		Name: u.Name, URL: u.URL, Transport: transports[u.Transport],
		ConnectTimeout: c.Upstream.ConnectTimeout, WriteTimeout: c.Upstream.WriteTimeout, PostTimeout: c.Upstream.PostTimeout,
		OpenTimeout: c.Sessions.OpenTimeout, StreamWait: c.Upstream.StreamWait,
		// A message on one line must not fail on the line's limit first.
		MaxMessage: int(c.Upstream.MaxMessage), MaxLine: max(int(c.Upstream.MaxLine), int(c.Upstream.MaxMessage)+len("data: ")),
		MaxDepth:     upstreamDepth,
		MaxIdleConns: c.Upstream.MaxIdleConns, IdleConnTTL: c.Upstream.IdleConnTTL,
		RetryMin: c.Upstream.RetryMin, RetryMax: c.Upstream.RetryMax, MaxResumes: c.Upstream.MaxResumes,
		MaxSessions: c.Sessions.Max, MaxPerKey: c.Sessions.MaxPerKey, IdleTTL: c.Sessions.IdleTTL,
		Queue: c.Sessions.Queue, QueueTimeout: c.Sessions.QueueTimeout,
		MaxOrphans: c.Sessions.MaxOrphans, CancelWait: c.Sessions.CancelWait, OrphanTTL: c.Sessions.OrphanTTL, ToolsTTL: c.Sessions.ToolsTTL,
		QueueEligible: c.Sessions.Eligible == config.EligibleQueue, PushesOnGET: u.PushesOnGET,
		ClientName: "holdfast", ClientVersion: buildVersion(),
	}
	for _, name := range slices.Sorted(maps.Keys(u.Headers)) {
		s.Headers = append(s.Headers, legacy.Field{Name: name, Value: u.Headers[name]})
	}
	return s
}

// startGuard starts the process that ends what is left of commands when this one
// is killed. It returns nil where no upstream is a command.
func startGuard(c *config.Config) (*child.Guard, error) {
	if !slices.ContainsFunc(c.Upstreams, func(u config.Upstream) bool { return u.Command != "" }) {
		return nil, nil
	}
	guard, err := child.StartGuard()
	if err != nil {
		return nil, fmt.Errorf("start the guard of commands: %w", err)
	}
	return guard, nil
}

var transports = map[string]legacy.Transport{
	config.TransportAuto:       legacy.TransportAuto,
	config.TransportStreamable: legacy.TransportStreamable,
	config.TransportSSE:        legacy.TransportSSE,
	config.TransportStdio:      legacy.TransportStdio,
}

// commandSettings describe an upstream that is a command. missing names the
// variables that it is to inherit and that are not set.
func commandSettings(c *config.Config, u config.Upstream, environ []string) (command *legacy.Command, missing []string) {
	env, missing := u.Environment(environ)
	return &legacy.Command{
		Path: u.Command, Args: u.Args, Env: env, Dir: u.Dir,
		Grace: c.Stdio.Grace, RestartMin: c.Stdio.RestartMin, RestartMax: c.Stdio.RestartMax,
		MaxLine: int(c.Stdio.MaxLine),
	}, missing
}

// upstreamDepth is how deep a server's messages may nest: schemas nest deeper
// than requests.
const upstreamDepth = 512

func proxySettings(c *config.Config, spoken *dialect.Set) proxy.Settings {
	s := proxy.Settings{
		Origins: c.HTTP.AllowedOrigins, Hosts: c.Hosts(), PrincipalHeader: c.Principal.Header,
		MaxBody: int(c.HTTP.MaxBody), MaxHeader: int(c.HTTP.MaxHeader), MaxDepth: c.HTTP.MaxDepth, MaxConnections: c.HTTP.MaxConnections,
		ReadTimeout: c.HTTP.ReadTimeout, WriteTimeout: c.HTTP.WriteTimeout, IdleTimeout: c.HTTP.IdleTimeout,
		StreamAfter: c.Stream.After, KeepAlive: c.Stream.KeepAlive, Dialects: spoken,
	}
	for _, u := range c.Upstreams {
		s.Routes = append(s.Routes, proxy.Route{Path: u.Path, Upstream: u.Name, Dialect: u.Dialect, Forward: u.ForwardHeaders})
	}
	return s
}

// stdioSettings are those for the client on standard input and output, of whom
// it is known that it is this process's own user. The name is one that no header
// field can hold, so that it is nobody else's with principal.header.
func stdioSettings(c *config.Config) stdio.Settings {
	return stdio.Settings{
		Upstream: c.Upstreams[0].Name, Principal: "\x00user " + strconv.Itoa(os.Getuid()),
		MaxLine: int(c.HTTP.MaxBody), MaxDepth: c.HTTP.MaxDepth, MaxRequests: c.Stdio.MaxRequests,
		WriteTimeout: c.HTTP.WriteTimeout, Dialects: stdioDialects(&c.Dialects),
	}
}

// keyRing makes the ring of request-state keys, and follows the key file.
func keyRing(ctx context.Context, c config.State, log zerolog.Logger, running *sync.WaitGroup) (*state.Ring, error) {
	switch {
	case c.KeyFile != "":
		keys, err := state.LoadKeyFile(c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("state.key_file: %w", err)
		}
		ring, err := state.NewRing(keys...)
		if err != nil {
			return nil, fmt.Errorf("state.key_file: %w", err)
		}
		file := &state.KeyFile{Path: c.KeyFile, Ring: ring, Report: func(keys int, err error) {
			if err != nil {
				log.Error().Err(err).Msg("request-state keys not read again: the ones read before stay in use")
				return
			}
			log.Info().Int("keys", keys).Msg("request-state keys read")
		}}
		running.Add(1)
		go func() {
			defer running.Done()
			file.Run(ctx)
		}()
		return ring, nil
	case len(c.Keys) > 0:
		keys := make([]state.Key, len(c.Keys))
		for i, text := range c.Keys {
			var err error
			if keys[i], err = state.ParseKey(text); err != nil {
				return nil, fmt.Errorf("state.keys[%d]: %w", i, err)
			}
		}
		ring, err := state.NewRing(keys...)
		if err != nil {
			return nil, fmt.Errorf("state.keys: %w", err)
		}
		return ring, nil
	}
	log.Warn().Msg("no request-state key is set: a random one seals them, so that they are lost when this process ends and mean nothing to other replicas (holdfast keygen, --state-key-file)")
	return state.NewRing(state.NewKey())
}

func newLogger(c config.Log, w io.Writer) zerolog.Logger {
	if c.Format == config.FormatConsole {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: !coloured(w)}
	}
	level, err := zerolog.ParseLevel(c.Level)
	if err != nil {
		level = zerolog.InfoLevel // the configuration admits only levels that parse
	}
	return zerolog.New(zerolog.SyncWriter(w)).Level(level).With().Timestamp().Logger()
}

// coloured: colours are for terminals, and for people who did not refuse them
// (no-color.org).
func coloured(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == ""
}
