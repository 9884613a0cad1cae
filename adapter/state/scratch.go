package state

import (
	"crypto/rand"
	"sync"
)

// nonceBatch is how many nonces are read from the system at a time: a system
// call each would cost as much as the sealing.
const nonceBatch = 16

// maxScratch bounds the buffers that stay in the pool: a request state of the
// default state.max_bytes fits.
const maxScratch = 16 << 10

// scratch is what one sealing or opening works with while nobody else has it. The
// AEAD is an interface, so that buffers on the stack would escape.
type scratch struct {
	buf    []byte
	nonces [nonceBatch * nonceSize]byte
	unused int // bytes at the end of nonces that were not given out yet
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// appendNonce appends random bytes that were never given out before.
func (s *scratch) appendNonce(dst []byte) []byte {
	if s.unused < nonceSize {
		rand.Read(s.nonces[:]) // never fails: crypto/rand ends the process instead
		s.unused = len(s.nonces)
	}
	nonce := s.nonces[len(s.nonces)-s.unused:][:nonceSize]
	s.unused -= nonceSize
	dst = append(dst, nonce...)
	clear(nonce)
	return dst
}

func (s *scratch) put() {
	if cap(s.buf) > maxScratch {
		s.buf = nil
	}
	scratches.Put(s)
}
