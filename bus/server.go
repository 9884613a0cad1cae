package bus

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

const routeUser = "holdfast"

// startServer starts the embedded server and returns the token that its only
// client needs.
func (b *Bus) startServer() (string, error) {
	token := rand.Text()
	o := &server.Options{
		// Two servers of one name never join, and say nothing.
		ServerName:    b.s.Replica,
		DontListen:    true,
		NoSigs:        true,
		NoLog:         true,
		Authorization: token,
		MaxPayload:    1 << 20,
	}
	if b.mode == Clustered {
		if err := b.cluster(o); err != nil {
			return "", err
		}
	}
	srv, err := server.NewServer(o)
	if err != nil {
		return "", fmt.Errorf("embedded NATS server: %w", err)
	}
	log := &serverLog{log: b.log}
	if b.mode == Clustered {
		log.secret = o.Cluster.Password
	}
	srv.SetLoggerV2(log, b.log.log.GetLevel() <= zerolog.TraceLevel, false, false)
	b.srv = srv
	srv.Start()
	if !srv.ReadyForConnections(5 * time.Second) {
		return "", errors.New("embedded NATS server does not start" + log.cause())
	}
	return token, nil
}

// cluster fills in what makes the server one of several.
func (b *Bus) cluster(o *server.Options) error {
	c, t := b.s.Cluster, b.s.OwnerTimeout
	host, p, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("cluster listen: %w", err)
	}
	port, err := strconv.Atoi(p)
	if err != nil {
		return fmt.Errorf("cluster listen: %w", err)
	}
	if host == "" {
		host = "0.0.0.0"
	}
	// The server's own message about a port that is taken comes too late and
	// only in its log.
	l, err := net.Listen("tcp", net.JoinHostPort(host, p))
	if err != nil {
		return fmt.Errorf("cluster listen: %w", err)
	}
	if err := l.Close(); err != nil {
		return fmt.Errorf("cluster listen: %w", err)
	}
	b.routePort = uint16(port)
	// Without a client listener the route port would never open.
	o.DontListen, o.Host, o.Port = false, "127.0.0.1", -1
	o.Cluster = server.ClusterOpts{
		Name:          c.Name,
		Host:          host,
		Port:          port,
		NoAdvertise:   true,
		PingInterval:  t / 3,
		MaxPingsOut:   2,
		WriteDeadline: 2 * t,
		AuthTimeout:   max(2, t.Seconds()),
		TLSTimeout:    max(2, t.Seconds()),
	}
	if c.Secret != "" {
		o.Cluster.Username, o.Cluster.Password = routeUser, routePassword(c.Secret)
	}
	if !c.TLS.isZero() {
		if c.TLS.Name == "" {
			c.TLS.Name = firstName(c.Peers)
		}
		if o.Cluster.TLSConfig, err = c.TLS.mutual(); err != nil {
			return fmt.Errorf("cluster TLS: %w", err)
		}
	}
	b.peers.routes = newRoutes(c.Peers, port, o, b.s.resolve)
	o.Routes = b.peers.routes.urls(b.peers.routes.addresses())
	return nil
}

// routePassword keeps the secret itself off the wire and out of NATS.
func routePassword(secret string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte("holdfast cluster route"))
	return hex.EncodeToString(m.Sum(nil))
}

func firstName(peers []string) string {
	for _, p := range peers {
		if host, _, err := net.SplitHostPort(p); err == nil && net.ParseIP(host) == nil {
			return host
		}
	}
	return ""
}

// serverLog gives the embedded server's log to ours: what it calls a notice is
// of interest to whoever debugs, and its errors are mostly peers that cannot
// be reached.
type serverLog struct {
	log    *limited
	secret string // route URLs in its lines hold it
	last   atomic.Pointer[string]
}

func (l *serverLog) text(format string, v []any) string {
	t := fmt.Sprintf(format, v...)
	if l.secret != "" {
		t = strings.ReplaceAll(t, l.secret, "***")
	}
	return t
}

func (l *serverLog) debug(format string, v []any) {
	l.log.log.Trace().Str("nats", l.text(format, v)).Msg("embedded NATS server")
}

func (l *serverLog) warn(format string, v []any) {
	t := l.text(format, v)
	l.last.Store(&t)
	l.log.warn("embedded NATS server warns", func(e *zerolog.Event) { e.Str("nats", t) })
}

func (l *serverLog) cause() string {
	if t := l.last.Load(); t != nil {
		return ": " + *t
	}
	return ""
}

func (l *serverLog) Noticef(f string, v ...any) { l.debug(f, v) }
func (l *serverLog) Debugf(f string, v ...any)  { l.debug(f, v) }
func (l *serverLog) Tracef(f string, v ...any)  { l.debug(f, v) }
func (l *serverLog) Warnf(f string, v ...any)   { l.warn(f, v) }
func (l *serverLog) Errorf(f string, v ...any)  { l.warn(f, v) }
func (l *serverLog) Fatalf(f string, v ...any)  { l.warn(f, v) }
