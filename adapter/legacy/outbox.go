package legacy

import (
	"context"
	"sync"
)

// outboxSize and outboxBytes bound the messages of one session that wait to be
// posted. One alone is never too large.
const (
	outboxSize  = 256
	outboxBytes = 8 << 20
)

// outbox posts a session's messages in order, in the background: replies to
// pings, refusals, cancellations. Its goroutine runs only while there is
// something to post.
type outbox struct {
	session *Session

	mu      sync.Mutex
	queue   []letter
	bytes   int  // of the texts in queue
	held    bool // the handshake has not named the session yet
	running bool
	cancel  context.CancelFunc // of what is being posted, while running
	closed  bool
	wg      sync.WaitGroup
}

type letter struct {
	creds Credentials
	text  []byte
}

func (o *outbox) put(creds Credentials, text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || len(o.queue) >= outboxSize || len(o.queue) > 0 && o.bytes+len(text) > outboxBytes {
		putText(text)
		if !o.closed {
			o.session.server.noisy.Warn().Str("upstream", o.session.server.settings.Name).
				Msg("message for the upstream dropped: too many wait to be posted")
		}
		return
	}
	o.queue = append(o.queue, letter{creds, text})
	o.bytes += len(text)
	if !o.running && !o.held {
		o.start()
	}
}

// open ends the holding back of what came during the handshake: a server may
// ping before it answers initialize, and a reply must name the session.
func (o *outbox) open() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = false
	if len(o.queue) > 0 && !o.running {
		o.start()
	}
}

// start must be called with mu held.
func (o *outbox) start() {
	o.running = true
	var ctx context.Context
	ctx, o.cancel = context.WithCancel(o.session.server.ctx)
	o.wg.Add(1)
	go o.run(ctx)
}

func (o *outbox) run(ctx context.Context) {
	defer o.wg.Done()
	for {
		o.mu.Lock()
		if len(o.queue) == 0 {
			o.running = false
			o.queue = nil
			o.cancel()
			o.mu.Unlock()
			return
		}
		l := o.queue[0]
		o.queue = o.queue[1:]
		o.bytes -= len(l.text)
		o.mu.Unlock()
		if err := o.session.Post(ctx, l.creds, l.text); err != nil {
			o.session.server.log.Debug().Err(err).Str("upstream", o.session.server.settings.Name).
				Msg("message for the upstream not delivered")
		}
		putText(l.text)
	}
}

// close posts what waits, until ctx ends, and takes nothing more.
func (o *outbox) close(ctx context.Context) {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.queue, o.bytes = nil, 0
		if o.running {
			o.cancel()
		}
	})
	o.wg.Wait()
	stop()
}
