package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Settings of a Bus. Without URL and Cluster.Listen the bus is embedded and
// alone: no TCP port, no peers.
type Settings struct {
	Replica   string // id of this process, never used before or again: up to 63 of [0-9a-z]
	Namespace string // first token of all subjects, default "holdfast"; deployments that share a NATS use different ones
	Version   string // of the program, told to peers; cut at 64 bytes

	URL             string // external servers, comma separated
	CredentialsFile string // for URL: a NATS .creds file
	NKeyFile        string // for URL: an NKey seed
	Token           string // for URL; secret
	TLS             TLS    // for URL

	Cluster Cluster

	OwnerTimeout time.Duration // silence after which a peer or a stream is lost and the lease runs out; default 3s, at least 100ms
	Window       int           // bytes under way per stream and direction; default 1 MiB, at least 16 KiB
	Chunk        int           // largest payload of one NATS message; default 128 KiB, at least 1 KiB
	MaxMessage   int           // bytes of one message of a stream; default 64 MiB
	MaxStreams   int           // streams that peers may have open here at a time; default 65,536

	// About returns what the heartbeats tell of this replica, at most 1 KiB.
	// It must not block: heartbeats wait for it.
	About func() []byte

	resolve func(ctx context.Context, host string) ([]netip.Addr, error) // nil: as the system does
}

// Cluster makes the embedded server one of a cluster.
type Cluster struct {
	Listen string   // host:port for the routes
	Peers  []string // host:port each; a DNS name stands for all its addresses; the own address among them does no harm
	Name   string   // clusters of different names do not join; default the namespace
	Secret string   // what replicas prove to each other; required unless TLS is set
	TLS    TLS      // mutual: Cert, Key and CA
}

// TLS names PEM files. For a cluster all three are needed, and peers need
// certificates of the same CA.
type TLS struct {
	Cert, Key string
	CA        string // default: the system's
	Name      string // name in the peer's certificate; default: the host that was dialled, in a cluster the first DNS name of Peers
}

func (t TLS) isZero() bool { return t == TLS{} }

const (
	maxAbout   = 1 << 10
	maxID      = 63
	maxVersion = 64
)

var (
	replicaForm   = regexp.MustCompile(`^[0-9a-z]{1,63}$`)
	namespaceForm = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)
)

func (s Settings) withDefaults() Settings {
	if s.Namespace == "" {
		s.Namespace = "holdfast"
	}
	if s.OwnerTimeout == 0 {
		s.OwnerTimeout = 3 * time.Second
	}
	if s.Window == 0 {
		s.Window = 1 << 20
	}
	if s.Chunk == 0 {
		s.Chunk = 128 << 10
	}
	if s.MaxMessage == 0 {
		s.MaxMessage = 64 << 20
	}
	if s.MaxStreams == 0 {
		s.MaxStreams = 1 << 16
	}
	if s.Cluster.Name == "" {
		s.Cluster.Name = s.Namespace
	}
	if s.resolve == nil {
		s.resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if s.About == nil {
		s.About = func() []byte { return nil }
	}
	s.Version = s.Version[:min(len(s.Version), maxVersion)]
	return s
}

// check reports what of complete settings cannot work, without any secret.
func (s Settings) check() error {
	switch {
	case !replicaForm.MatchString(s.Replica):
		return fmt.Errorf("replica id %q: want 1 to 63 of 0-9 and a-z", s.Replica)
	case !namespaceForm.MatchString(s.Namespace):
		return fmt.Errorf("namespace %q: want 1 to 64 letters, digits, - and _", s.Namespace)
	case s.OwnerTimeout < 100*time.Millisecond || s.OwnerTimeout > 10*time.Minute:
		return fmt.Errorf("owner timeout %s: want 100ms to 10m", s.OwnerTimeout)
	case s.Window < 16<<10 || s.Window > 64<<20:
		return fmt.Errorf("window of %d bytes: want 16 KiB to 64 MiB", s.Window)
	case s.Chunk < 1<<10 || s.Chunk > 1<<20:
		return fmt.Errorf("chunk of %d bytes: want 1 KiB to 1 MiB", s.Chunk)
	case s.MaxMessage < 1:
		return fmt.Errorf("max message of %d bytes", s.MaxMessage)
	case s.MaxStreams < 1:
		return fmt.Errorf("max streams %d", s.MaxStreams)
	case s.URL != "" && s.Cluster.Listen != "":
		return errors.New("both a URL and a cluster to listen for: want one of them")
	case s.URL != "":
		return s.checkExternal()
	case s.Cluster.Listen != "":
		return s.Cluster.check()
	case len(s.Cluster.Peers) > 0:
		return errors.New("cluster peers without an address to listen on")
	}
	return nil
}

func (s Settings) checkExternal() error {
	for i, one := range strings.Split(s.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil {
			// The error of url.Parse quotes the URL, which may hold a password.
			return fmt.Errorf("URL %d cannot be parsed", i+1)
		}
		switch u.Scheme {
		case "nats", "tls", "ws", "wss":
		default:
			return fmt.Errorf("URL %d (%s): want nats://, tls://, ws:// or wss://", i+1, u.Redacted())
		}
		if u.Hostname() == "" {
			return fmt.Errorf("URL %d (%s) has no host", i+1, u.Redacted())
		}
	}
	ways := 0
	for _, w := range []string{s.CredentialsFile, s.NKeyFile, s.Token} {
		if w != "" {
			ways++
		}
	}
	if ways > 1 {
		return errors.New("more than one of credentials file, nkey file and token")
	}
	return nil
}

func (c Cluster) check() error {
	if err := checkAddress(c.Listen, true); err != nil {
		return fmt.Errorf("cluster listen: %w", err)
	}
	for _, p := range c.Peers {
		if err := checkAddress(p, false); err != nil {
			return fmt.Errorf("cluster peer: %w", err)
		}
	}
	switch t := c.TLS; {
	case t.isZero() && c.Secret == "":
		return errors.New("a cluster needs a secret, or TLS with client certificates")
	case !t.isZero() && (t.Cert == "" || t.Key == "" || t.CA == ""):
		return errors.New("TLS of a cluster needs certificate, key and CA")
	}
	return nil
}

func checkAddress(a string, listen bool) error {
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		return fmt.Errorf("%q: want host:port", a)
	}
	if host == "" && !listen {
		return fmt.Errorf("%q has no host", a)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q: port must be 1 to 65535", a)
	}
	return nil
}
