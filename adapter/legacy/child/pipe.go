package child

import (
	"io"
	"os"
	"syscall"
)

// pipe is our end of one, which never blocks: package os waits for it. One
// goroutine reads it.
type pipe struct {
	raw         syscall.RawConn
	try, looked func(fd uintptr) bool // readOnce and look, made once

	p      []byte
	n      int
	err    error
	waited bool
}

func newPipe(f *os.File) (*pipe, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &pipe{raw: raw}
	p.try, p.looked = p.readOnce, p.look
	return p, nil
}

// Read implements lines.Waiter.
//
// Hot: once per message.
func (p *pipe) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	p.p = b
	err := p.raw.Read(p.try)
	p.p = nil
	switch {
	case err != nil:
		return 0, err
	case p.err != nil:
		return 0, p.err
	case p.n == 0:
		return 0, io.EOF
	}
	return p.n, nil
}

func (p *pipe) readOnce(fd uintptr) bool {
	p.n, p.err = readPipe(fd, p.p)
	return p.err != syscall.EAGAIN
}

// Await implements lines.Waiter.
//
// Hot: once per message.
func (p *pipe) Await() error {
	p.waited = false
	return p.raw.Read(p.looked)
}

// look looks whether there is something, and believes the runtime once that has
// waited.
func (p *pipe) look(fd uintptr) bool {
	if p.waited {
		return true
	}
	p.waited = true
	return pollPipe(fd)
}
