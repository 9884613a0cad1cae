package child

import (
	"bytes"
	"errors"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter/lines"
)

// maxSaid bounds a line of standard error in the log.
const maxSaid = 8 << 10

// maxTail bounds what is kept of the end of standard error.
const maxTail = 1 << 10

// tail keeps the end of what a process says on standard error.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) add(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(append(t.text, line...), '\n')
	if len(t.text) > maxTail {
		t.text = append(t.text[:0], t.text[len(t.text)-maxTail:]...)
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(bytes.TrimSpace(t.text)), "\ufffd")
}

// listen logs what comes on standard error, until it ends.
func listen(from lines.Waiter, keep *tail, log zerolog.Logger) {
	l := lines.NewReader(from, maxSaid)
	for {
		line, err := l.Next()
		var long *lines.TooLong
		if errors.As(err, &long) {
			line, err = append(long.Head, " [...] "...), nil
			line = append(line, long.Tail...)
		}
		if err != nil && len(line) == 0 {
			return
		}
		if line = bytes.TrimRight(line, " \t"); len(line) > 0 {
			keep.add(line)
			log.Info().Bytes("line", line).Msg("said on standard error")
		}
	}
}
