package child

import (
	"io"
	"os"
	"syscall"
)

// pipe is our end of one, which never blocks: package os waits for it.
type pipe struct {
	raw syscall.RawConn
	try func(fd uintptr) bool // readOnce, made once

	p   []byte
	n   int
	err error
}

func newPipe(f *os.File) (*pipe, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &pipe{raw: raw}
	p.try = p.readOnce
	return p, nil
}

// Read implements io.Reader. One goroutine calls it.
//
// Hot: once or twice per message.
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
