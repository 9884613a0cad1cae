package bus

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

// names is DNS by hand.
type names struct {
	asked chan struct{} // has room for all

	mu     sync.Mutex // guards answer
	answer []netip.Addr
}

func (n *names) set(addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer = nil
	for _, a := range addrs {
		n.answer = append(n.answer, netip.MustParseAddr(a))
	}
}

func (n *names) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	n.asked <- struct{}{}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.answer) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return append([]netip.Addr(nil), n.answer...), nil
}

// One name stands for all replicas, and comes to know them one by one.
func TestOneNameForAllReplicas(t *testing.T) {
	_, port, err := net.SplitHostPort(freePort(t))
	if err != nil {
		t.Fatal(err)
	}
	dns := &names{asked: make(chan struct{}, 1000)} // knows nobody at first
	hosts := []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"}
	var all []*Bus
	for i, h := range hosts {
		all = append(all, open(t, Settings{
			Replica: fmt.Sprintf("r%d", i), resolve: dns.lookup,
			Cluster: Cluster{Listen: net.JoinHostPort(h, port), Peers: []string{"replicas.test:" + port}, Secret: "x"},
		}))
	}
	if n := len(all[0].Peers()); n != 0 {
		t.Fatalf("%d peers without an address", n)
	}
	dns.set(hosts[0], hosts[1])
	awaitPeers(t, all[0], 1+1) // the third joins the others, nobody it
	dns.set(hosts...)
	for _, b := range all {
		serveEcho(b)
		awaitPeers(t, b, 2)
	}
	if got := ask(t, all[2], "r1", "hello"); got != "hello" {
		t.Errorf("answer %q", got)
	}
	routes := all[0].peers.routes
	gone := netip.MustParseAddr(hosts[2])
	await(t, "the whole answer", func() bool {
		routes.mu.Lock()
		defer routes.mu.Unlock()
		return routes.seen[gone]
	})
	if routes.gone(gone) {
		t.Error("an address in the answer is gone")
	}
	dns.set(hosts[0], hosts[1])
	await(t, "the shorter answer", func() bool { return routes.gone(gone) })
	// It has not gone from the bus: a replica that drains may be in no answer.
	s, h := opened(t, all[0], all[2])
	for range 2 {
		now := len(dns.asked)
		await(t, "another look at DNS", func() bool { return len(dns.asked) > now })
	}
	if err := h.s.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := recv(t, s); err != io.EOF {
		t.Errorf("stream of a replica that DNS knows no longer: %v, want its end", err)
	}
	dns.set()
	if routes.resolve(t.Context(), time.Second, all[0].log) || routes.gone(netip.MustParseAddr(hosts[1])) {
		t.Error("no answer counts as an answer")
	}
	if routes.gone(netip.MustParseAddr("127.0.0.9")) {
		t.Error("an address that was never in an answer is gone")
	}
}

func TestRoutesWithoutTheOwn(t *testing.T) {
	o := &server.Options{Cluster: server.ClusterOpts{Username: "u", Password: "p"}}
	r := newRoutes([]string{"127.0.0.1:6222", "127.0.0.1:6223", "127.0.0.1:6223", "[2001:db8::1]:6222"}, 6222, o, nil)
	got := fmt.Sprint(r.urls(r.addresses()))
	if want := "[nats://u:p@127.0.0.1:6223 nats://u:p@[2001:db8::1]:6222]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Silence alone keeps a peer required for long, but not for ever.
func TestRequired(t *testing.T) {
	b := &Bus{s: Settings{}.withDefaults(), peers: newPeers(Clustered)}
	addr := netip.MustParseAddrPort("192.0.2.1:6222")
	r := &peer{heard: 1, addr: addr}
	if !b.stillRequired(r, 19*b.timeout()) {
		t.Error("not required while it may live")
	}
	if b.stillRequired(r, 21*b.timeout()) {
		t.Error("required for ever")
	}
	b.peers.routes = &routes{seen: map[netip.Addr]bool{addr.Addr(): true}}
	if !b.stillRequired(r, b.timeout()/4) {
		t.Error("not required although it is not silent")
	}
	if b.stillRequired(r, b.timeout()/2) {
		t.Error("required although DNS knows it no longer")
	}
}

// lines keeps a log.
type logged struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) has(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.buf.String(), s)
}

// Who does not know the secret stays out, and no log tells it.
func TestRouteSecret(t *testing.T) {
	var log logged
	addr := freePort(t)
	join := func(id, listen, secret string) *Bus {
		b, err := Open(Settings{
			Replica: id, OwnerTimeout: brisk,
			Cluster: Cluster{Listen: listen, Peers: []string{addr, "localhost:" + addr[strings.LastIndex(addr, ":")+1:]}, Secret: secret},
		}, zerolog.New(&log).Level(zerolog.DebugLevel))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close(context.Background()) })
		return b
	}
	a := join("a", addr, "hunter2")
	b := join("b", freePort(t), "hunter2")
	c := join("c", freePort(t), "wrong")
	awaitPeers(t, a, 1)
	awaitPeers(t, b, 1)
	await(t, "refused route", func() bool { return log.has("authentication error") || log.has("Authorization Violation") })
	if len(c.Peers()) != 0 {
		t.Error("a replica without the secret joined")
	}
	for _, secret := range []string{"hunter2", "wrong", routePassword("hunter2"), routePassword("wrong")} {
		if log.has(secret) {
			t.Errorf("the log tells %q", secret)
		}
	}
}

// Certificates of one CA are enough to join; those of another are not.
func TestRoutesOverTLS(t *testing.T) {
	ours, theirs := newCA(t), newCA(t)
	var log logged
	addr := freePort(t)
	join := func(id, listen string, files TLS) *Bus {
		b, err := Open(Settings{
			Replica: id, OwnerTimeout: brisk,
			Cluster: Cluster{Listen: listen, Peers: []string{addr}, TLS: files},
		}, zerolog.New(&log))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close(context.Background()) })
		return b
	}
	a := join("a", addr, ours.issue(t))
	b := join("b", freePort(t), ours.issue(t))
	c := join("c", freePort(t), theirs.issue(t))
	awaitPeers(t, a, 1)
	awaitPeers(t, b, 1)
	await(t, "refused route", func() bool { return log.has("TLS") })
	if len(c.Peers()) != 0 {
		t.Error("a replica of another CA joined")
	}
	serveEcho(a)
	if got := ask(t, b, "a", "sealed"); got != "sealed" {
		t.Errorf("answer %q", got)
	}
	if _, err := b.Ask(t.Context(), "c", echoKind, nil); err != nil && !errors.Is(err, ErrNoReplica) {
		t.Error(err)
	}
}

// ca issues certificates for the name replicas.test.
type ca struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newCA(t *testing.T) *ca {
	t.Helper()
	c := &ca{file: filepath.Join(t.TempDir(), "ca.pem")}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	c.key = newKey(t)
	c.cert = template
	der := c.sign(t, template, c.key)
	var err error
	if c.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	write(t, c.file, "CERTIFICATE", der)
	return c
}

func (c *ca) sign(t *testing.T, template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, &key.PublicKey, c.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func (c *ca) issue(t *testing.T) TLS {
	t.Helper()
	dir := t.TempDir()
	key := newKey(t)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := TLS{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), CA: c.file, Name: "replicas.test"}
	write(t, files.Key, "PRIVATE KEY", der)
	write(t, files.Cert, "CERTIFICATE", c.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{"replicas.test"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key))
	return files
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func write(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
