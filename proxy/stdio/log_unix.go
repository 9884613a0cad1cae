//go:build unix

package stdio

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Log is the process's standard error. A client may ignore it (basic/transports/
// stdio), and one that does so by not reading must hold up nothing: what finds no
// room is lost, and counted. Lines come one in each Write.
type Log struct {
	file *os.File

	mu   sync.Mutex
	lost int  // lines since the last that was written
	torn bool // the last one was written in part
}

// OpenLog makes a Log of a file.
func OpenLog(file *os.File) io.Writer { return &Log{file: file} }

// room is how long a line waits for a reader, if the one before it had one.
const room = 100 * time.Millisecond

// Write implements io.Writer. It always succeeds.
func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	by := time.Now()
	if l.lost == 0 {
		by = by.Add(room)
	} else {
		note := fmt.Sprintf("{\"level\":\"warn\",\"lines\":%d,\"message\":\"the log had no reader, and has lost lines\"}\n", l.lost)
		if l.torn {
			note = "\n" + note
		}
		switch l.put([]byte(note), by) {
		case len(note):
			l.lost, l.torn = 0, false
		case 0:
		default:
			l.torn = true
		}
	}
	if l.lost > 0 {
		l.lost++
		return len(line), nil
	}
	if n := l.put(line, by); n < len(line) {
		l.lost, l.torn = 1, n > 0
	}
	return len(line), nil
}

// put writes what there is room for until then.
func (l *Log) put(p []byte, by time.Time) (written int) {
	for written < len(p) {
		ready := []unix.PollFd{{Fd: int32(l.file.Fd()), Events: unix.POLLOUT}}
		n, err := unix.Poll(ready, int(max(time.Until(by), 0).Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n == 0 || err != nil {
			return written
		}
		n, err = unix.Write(int(l.file.Fd()), p[written:min(len(p), written+atOnce)])
		if err == unix.EINTR || err == unix.EAGAIN && time.Now().Before(by) {
			continue
		}
		if err != nil {
			return written
		}
		written += n
	}
	return written
}
