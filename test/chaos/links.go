package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

// leftByToxiproxy are goroutines of connections that ended: where a write fails
// while more comes in, Toxiproxy leaves those behind that pass the rest on. A
// connection that has not ended has others, which are looked for.
var leftByToxiproxy = []goleak.Option{
	goleak.IgnoreTopFunction("github.com/Shopify/toxiproxy/v2/toxics.(*NoopToxic).Pipe"),
	goleak.IgnoreTopFunction("github.com/Shopify/toxiproxy/v2/stream.(*ChanWriter).Write"),
}

// Links are connections that can be broken, made by Toxiproxy.
type Links struct {
	server *toxiproxy.ApiServer // without its API: it is only what proxies need
	all    []*Link
}

// Link passes connections on to one address.
type Link struct {
	server *toxiproxy.ApiServer
	proxy  *toxiproxy.Proxy
}

// NewLinks returns an empty set.
func NewLinks() *Links {
	return &Links{server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())}
}

// Add opens a link to an address.
func (l *Links) Add(name, to string) (*Link, error) {
	for range 1000 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(linkPorts+int(nextPort.Add(1))%(firstPort-linkPorts)))
		link := &Link{l.server, toxiproxy.NewProxy(l.server, name, address, to)}
		err := link.proxy.Start()
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open link %s: %w", name, err)
		}
		l.all = append(l.all, link)
		return link, nil
	}
	return nil, fmt.Errorf("open link %s: no free port", name)
}

// linkPorts is the first port of links, which go up to firstPort: an outgoing
// connection that took one while its link is broken would keep it broken.
const linkPorts = 10000

// nextPort counts from a place of this process's own.
var nextPort = func() *atomic.Int64 {
	n := new(atomic.Int64)
	n.Store(int64(os.Getpid() % 1000 * 10))
	return n
}()

// Close closes all links.
func (l *Links) Close() {
	for _, link := range l.all {
		link.proxy.Stop()
	}
}

// Address is where the link listens, also after it was broken and joined.
func (l *Link) Address() string {
	l.proxy.Lock()
	defer l.proxy.Unlock()
	return l.proxy.Listen
}

// Break closes the connections and refuses new ones, until Join.
func (l *Link) Break() { l.proxy.Stop() }

// Join undoes Break.
func (l *Link) Join() error {
	if err := l.start(); !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
		return err
	}
	return nil
}

// start listens at the link's address. Another process may have taken its port
// meanwhile, for a while.
func (l *Link) start() error {
	for give := time.Now().Add(portWithin); ; time.Sleep(50 * time.Millisecond) {
		err := l.proxy.Start()
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(give) {
			return err
		}
	}
}

// portWithin is how long a link waits for its port.
const portWithin = 10 * time.Second

// Swallow leaves the connections as they are and drops what comes, until
// Release.
func (l *Link) Swallow() error { return l.hush(0) }

// Sever ends the connections, and all that come, as soon as anything comes on
// them, until Release. Unlike Break it refuses none: that is what a machine does
// whose process is dead, which replicas of a cluster go by.
func (l *Link) Sever() error { return l.hush(1) }

// hush drops what comes, and ends the connections after so many milliseconds;
// never, if 0.
func (l *Link) hush(after int) error {
	for _, direction := range []string{"upstream", "downstream"} {
		toxic := `{"name":"swallow-` + direction + `","type":"timeout","stream":"` + direction + `","attributes":{"timeout":` + strconv.Itoa(after) + `}}`
		if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			return fmt.Errorf("swallow: %w", err)
		}
	}
	return nil
}

// Release undoes Swallow and Sever. The connections, which have gaps, end. The proxy is
// made anew: one whose toxic is taken away while bytes come in may leave the
// goroutines of a connection behind.
func (l *Link) Release() error {
	old := l.proxy
	old.Stop()
	l.proxy = toxiproxy.NewProxy(l.server, old.Name, old.Listen, old.Upstream)
	return l.start()
}
