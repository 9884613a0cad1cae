package load

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// Lines are the pipes of a process, on which a line is a message. The callers of
// all slots may be at them at once: whoever waits for an answer reads, and hands
// on what is another's. One caller alone so reads its answers itself.
type Lines struct {
	in      *os.File
	out     *bufio.Reader
	from    *os.File // what out reads
	fresh   time.Time
	reading chan struct{} // a mutex that whoever waits can give up; guards out and fresh
	arrived [slots]chan []byte
	room    [slots][]byte // of the last message for each slot, until its next request
}

// slots is how many there may be.
const slots = 64

// NewLines returns the lines of a process that reads from in and writes to out.
func NewLines(in, out *os.File) *Lines {
	l := &Lines{in: in, out: bufio.NewReaderSize(out, 64<<10), from: out, reading: make(chan struct{}, 1)}
	for slot := range l.arrived {
		l.arrived[slot] = make(chan []byte, 1)
	}
	return l
}

// send writes a message, which is a line.
func (l *Lines) send(line []byte) error {
	if _, err := l.in.Write(line); err != nil {
		return fmt.Errorf("write message: %w", err)
	}
	return nil
}

// next returns the next message for a slot, valid until its next request. What
// names no slot, because it is a request of the server's, is for whoever reads:
// where the server asks, there is one caller only.
func (l *Lines) next(slot int) ([]byte, error) {
	select {
	case line := <-l.arrived[slot]:
		return line, nil
	case l.reading <- struct{}{}:
	}
	defer func() { <-l.reading }()
	select {
	case line := <-l.arrived[slot]: // read by the one before
		return line, nil
	default:
	}
	if now := time.Now(); now.Sub(l.fresh) > time.Second {
		l.fresh = now
		if err := l.from.SetReadDeadline(now.Add(timeout)); err != nil {
			return nil, fmt.Errorf("set deadline: %w", err)
		}
	}
	for {
		line, err := l.out.ReadSlice('\n')
		if err != nil {
			return nil, fmt.Errorf("read message: %w", eof(err))
		}
		owner := slotOf(line)
		if owner < 0 {
			owner = slot
		}
		l.room[owner] = append(l.room[owner][:0], line...)
		if owner == slot {
			return l.room[slot], nil
		}
		select {
		case l.arrived[owner] <- l.room[owner]:
		default:
			return nil, fmt.Errorf("%w: slot %d got two: %s", ErrAnswer, owner, excerpt(line))
		}
	}
}

// slotOf returns the slot whose id a response has, or -1.
func slotOf(line []byte) int {
	id, err := strconv.ParseUint(string(wire.Get(line, "id")), 10, 64)
	if err != nil || id < first || id >= first+slots*perSlot {
		return -1
	}
	return int((id - first) / perSlot)
}

// caller is one slot at the lines.
type caller struct {
	lines *Lines
	slot  int
}

// message implements carrier.
func (c caller) message(request []byte) ([]byte, error) {
	if err := c.lines.send(request); err != nil {
		return nil, err
	}
	return c.lines.next(c.slot)
}

// Close leaves the pipes to whom the process belongs.
func (c caller) Close() {}
