package bus

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"
)

// Limits of what waits here for dispatch, which never blocks: passed only when
// the process gets no CPU. What is dropped then is noticed by the streams.
const (
	pendingMessages = 1 << 19
	pendingBytes    = 128 << 20
)

// connect starts the embedded server, if there is to be one, connects, and
// subscribes.
func (b *Bus) connect() error {
	opts := b.options()
	url := ""
	if b.mode == External {
		more, err := b.external()
		if err != nil {
			return err
		}
		opts = append(opts, more...)
		url = b.s.URL
	} else {
		token, err := b.startServer()
		if err != nil {
			return err
		}
		opts = append(opts, nats.InProcessServer(b.srv), nats.Token(token))
	}
	b.subs.Add(1) // until the connection is closed, see ClosedHandler
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		b.subs.Done()
		return fmt.Errorf("connect to NATS: %w", err)
	}
	b.nc = nc
	if r := b.peers.routes; r != nil && len(r.names) > 0 {
		b.running.Go(func() { r.follow(b.base, b) })
	}
	for subject, f := range map[string]nats.MsgHandler{
		b.subject(b.s.Replica) + ".>": b.dispatch,
		b.alive:                       b.hear,
	} {
		b.subs.Add(1)
		sub, err := nc.Subscribe(subject, f)
		if err != nil {
			b.subs.Done()
			return fmt.Errorf("subscribe: %w", err)
		}
		b.inboxes = append(b.inboxes, sub)
		sub.SetClosedHandler(func(string) { b.subs.Done() })
		if err := sub.SetPendingLimits(pendingMessages, pendingBytes); err != nil {
			return fmt.Errorf("subscribe: %w", err)
		}
	}
	return nil
}

// subject is the root of what goes to one replica.
func (b *Bus) subject(replica string) string { return b.s.Namespace + ".v1.r." + replica }

func (b *Bus) options() []nats.Option {
	t := b.s.OwnerTimeout
	return []nats.Option{
		nats.Name("holdfast " + b.s.Replica),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		// A request that waits for the reconnect would be delivered after its
		// asker has given up: fail at once instead.
		nats.ReconnectBufSize(-1),
		nats.ReconnectWait(min(t/12, time.Second)),
		nats.ReconnectJitter(t/30, t/30),
		nats.IgnoreAuthErrorAbort(), // credentials may be put right at the server
		nats.Timeout(max(t/2, time.Second)),
		nats.FlusherTimeout(2 * t),
		nats.PingInterval(t / 3),
		nats.MaxPingsOutstanding(2),
		nats.SkipSubjectValidation(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if !b.isClosing() {
				b.log.log.Warn().Err(err).Msg("bus disconnected")
			}
		}),
		nats.ConnectHandler(b.connected),
		nats.ReconnectHandler(b.connected),
		nats.ErrorHandler(b.asyncError),
		nats.ClosedHandler(func(*nats.Conn) { b.subs.Done() }),
	}
}

func (b *Bus) connected(nc *nats.Conn) {
	b.log.log.Info().Str("mode", string(b.mode)).Str("server", nc.ConnectedServerName()).Msg("bus connected")
	b.trouble.Store(nil)
	b.reseated.Store(true)
	b.poke()
}

// asyncError takes what happens to no call in particular.
func (b *Bus) asyncError(_ *nats.Conn, _ *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrSlowConsumer) {
		// The streams concerned find the gap in their numbers; Status counts.
		b.log.warn("bus dropped messages: they came faster than they could be read", nil)
		return
	}
	text := err.Error()
	b.trouble.Store(&text)
	b.log.warn("bus error", func(e *zerolog.Event) { e.Err(err) })
}

// external returns how to reach the servers of others. Files are checked here,
// so that a wrong path is an error of the settings and not a bus that never
// comes up.
func (b *Bus) external() ([]nats.Option, error) {
	s := b.s
	var opts []nats.Option
	switch {
	case s.CredentialsFile != "":
		if err := checkCredentials(s.CredentialsFile); err != nil {
			return nil, err
		}
		opts = append(opts, nats.UserCredentials(s.CredentialsFile))
	case s.NKeyFile != "":
		o, err := nats.NkeyOptionFromSeed(s.NKeyFile)
		if err != nil {
			return nil, fmt.Errorf("nkey file: %w", err)
		}
		opts = append(opts, o)
	case s.Token != "":
		opts = append(opts, nats.Token(s.Token))
	}
	if !s.TLS.isZero() {
		c, err := s.TLS.client()
		if err != nil {
			return nil, err
		}
		opts = append(opts, nats.Secure(c))
	}
	return opts, nil
}

func checkCredentials(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("credentials file: %w", err)
	}
	defer clear(text)
	if _, err := nkeys.ParseDecoratedJWT(text); err != nil || !strings.Contains(string(text), "BEGIN NATS USER JWT") {
		return fmt.Errorf("credentials file %s holds no user JWT", file)
	}
	key, err := nkeys.ParseDecoratedUserNKey(text)
	if err != nil {
		return fmt.Errorf("credentials file %s holds no user key", file)
	}
	key.Wipe()
	return nil
}

// disconnect sends what is still to be sent for at most wait, and returns when
// no callback runs any more and the embedded server is down.
func (b *Bus) disconnect(wait time.Duration) {
	if b.nc != nil {
		if wait > 0 && b.nc.IsConnected() {
			if err := b.nc.FlushTimeout(wait); err != nil {
				b.log.log.Debug().Err(err).Msg("bus goodbye not confirmed by NATS")
			}
		}
		b.nc.Close()
		b.subs.Wait()
	}
	if b.srv != nil {
		b.srv.Shutdown()
		b.srv.WaitForShutdown()
	}
}

// publish sends one frame. The payload is copied.
func (b *Bus) publish(subject, reply string, frame []byte) error {
	var err error
	if reply == "" {
		err = b.nc.Publish(subject, frame)
	} else {
		err = b.nc.PublishRequest(subject, reply, frame)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
	return nil
}

// chunk is the largest payload that fits a NATS message of today's server.
func (b *Bus) chunk() int {
	n := b.s.Chunk
	if most := int(b.nc.MaxPayload()) - overhead; most > 0 && most < n {
		n = most
	}
	return n
}
