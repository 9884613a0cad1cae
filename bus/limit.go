package bus

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// limited is a log to which peers cannot write as much as they like: lines of
// one kind come at most every ten seconds, and say how many were left out.
type limited struct {
	log zerolog.Logger

	mu    sync.Mutex
	kinds map[string]*lines // by message: constants of this package
}

type lines struct {
	next time.Time
	left int
}

const logEvery = 10 * time.Second

// warn writes message with the fields that add sets, unless there was one like
// it just now.
func (l *limited) warn(message string, add func(*zerolog.Event)) {
	l.mu.Lock()
	if l.kinds == nil {
		l.kinds = map[string]*lines{}
	}
	k := l.kinds[message]
	if k == nil {
		k = &lines{}
		l.kinds[message] = k
	}
	now := time.Now()
	if now.Before(k.next) {
		k.left++
		l.mu.Unlock()
		return
	}
	left := k.left
	k.left, k.next = 0, now.Add(logEvery)
	l.mu.Unlock()
	e := l.log.Warn()
	if left > 0 {
		e = e.Int("left_out", left)
	}
	if add != nil {
		add(e)
	}
	e.Msg(message)
}
