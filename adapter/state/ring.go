package state

import (
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/crypto/chacha20poly1305"
)

// Why a request state or a message is refused. Open and OpenMessage return
// nothing else.
var (
	// ErrTampered: no key holder sealed these bytes. Cut, altered, or made up.
	ErrTampered = errors.New("sealed bytes were tampered with")
	// ErrUnknownKey: sealed, as it says, with a key that this ring does not hold.
	ErrUnknownKey = errors.New("sealed with an unknown key")
	// ErrTooLong: longer than the caller allows; it was not looked at.
	ErrTooLong = errors.New("sealed text is too long")
	// ErrVersion: a form that this release does not know.
	ErrVersion = errors.New("sealed in an unknown version")
)

// A sealed token is, in base64url without padding:
//
//	version (1) | key id (4) | nonce (24) | XChaCha20-Poly1305 of the plain form
//
// Version and key id are the additional data. Nonces of 24 bytes may be random
// for as long as a key lives, on any number of replicas.
const (
	tokenVersion = 2
	headSize     = 1 + keyIDSize
	nonceSize    = chacha20poly1305.NonceSizeX
	minSize      = headSize + nonceSize + chacha20poly1305.Overhead
)

// MaxKeys is how many keys a ring holds at most.
const MaxKeys = 64

// encoding is strict: spare bits in the last character must be zero, so that a
// token has one text only.
var encoding = base64.RawURLEncoding.Strict()

// Ring is the set of keys that this replica seals and opens with. Make one with
// NewRing; it may be used from many goroutines, also while keys are replaced.
type Ring struct {
	keys atomic.Pointer[[]ringKey] // never empty; the first seals
}

type ringKey struct {
	id   [keyIDSize]byte
	aead cipher.AEAD
}

// NewRing makes a ring whose first key seals and whose keys all open. It wants
// at least one key and at most MaxKeys; errors match ErrKey.
func NewRing(keys ...Key) (*Ring, error) {
	r := new(Ring)
	if err := r.Replace(keys...); err != nil {
		return nil, err
	}
	return r, nil
}

// Replace swaps all keys at once, under the rules of NewRing. On an error the
// ring stays as it was. A key that is listed twice counts once.
func (r *Ring) Replace(keys ...Key) error {
	if len(keys) == 0 {
		return fmt.Errorf("%w: no key given", ErrKey)
	}
	if len(keys) > MaxKeys {
		return fmt.Errorf("%w: %d keys given, %d allowed", ErrKey, len(keys), MaxKeys)
	}
	ring := make([]ringKey, 0, len(keys))
	for i, k := range keys {
		if k == (Key{}) {
			return fmt.Errorf("%w: key %d is all zero", ErrKey, i+1)
		}
		if slices.Contains(keys[:i], k) {
			continue
		}
		id := k.id()
		if slices.ContainsFunc(ring, func(o ringKey) bool { return o.id == id }) {
			return fmt.Errorf("%w: key %d has the id %x of another key; generate a new one", ErrKey, i+1, id)
		}
		aead, err := chacha20poly1305.NewX(k[:])
		if err != nil {
			return fmt.Errorf("set up key %d: %w", i+1, err)
		}
		ring = append(ring, ringKey{id: id, aead: aead})
	}
	r.keys.Store(&ring)
	return nil
}

// Seal appends the sealed token to dst. Two seals of one token differ. The text
// is about 1.4 times as long as all texts in it together, plus 150 bytes; 24
// bytes come with each input and answer. What is not Valid is sealed, but Open
// refuses it.
//
// Hot: once per parked round.
func (r *Ring) Seal(dst []byte, plain *Token) []byte {
	key := &(*r.keys.Load())[0]
	s := scratches.Get().(*scratch)
	defer s.put()

	b := append(s.buf[:0], tokenVersion)
	b = append(b, key.id[:]...)
	b = s.appendNonce(b)
	b = plain.appendPlain(b)
	head, nonce, text := b[:headSize], b[headSize:headSize+nonceSize], b[headSize+nonceSize:]
	b = key.aead.Seal(b[:headSize+nonceSize], nonce, text, head)
	s.buf = b
	return encoding.AppendEncode(dst, b)
}

// Open reads a token of at most limit bytes of text. The text may be anything; it
// is not kept.
//
// Hot: once per retry.
func (r *Ring) Open(text []byte, limit int) (t Token, err error) {
	if len(text) > limit {
		return Token{}, ErrTooLong
	}
	s := scratches.Get().(*scratch)
	defer s.put()

	b := slices.Grow(s.buf[:0], encoding.DecodedLen(len(text)))
	s.buf = b
	n, err := encoding.Decode(b[:cap(b)], text)
	// The decoder skips line breaks: a text that had some is longer than it should be.
	if err != nil || encoding.EncodedLen(n) != len(text) {
		return Token{}, ErrTampered
	}
	p, err := r.takeApart(b[:n], tokenVersion)
	if err != nil {
		return Token{}, err
	}
	plain, err := p.key.aead.Open(p.sealed[:0], p.nonce, p.sealed, p.head)
	if err != nil {
		return Token{}, ErrTampered
	}
	if !t.readPlain(plain) {
		return Token{}, ErrTampered
	}
	return t, nil
}

// parts are what sealed bytes consist of, and the key that they name.
type parts struct {
	head, nonce, sealed []byte
	key                 *ringKey
}

// takeApart finds the parts and the key. Nothing is authenticated yet.
func (r *Ring) takeApart(b []byte, version byte) (parts, error) {
	if len(b) == 0 {
		return parts{}, ErrTampered
	}
	if b[0] != version {
		return parts{}, ErrVersion
	}
	if len(b) < minSize {
		return parts{}, ErrTampered
	}
	p := parts{head: b[:headSize], nonce: b[headSize:][:nonceSize], sealed: b[headSize+nonceSize:]}
	if p.key = r.find([keyIDSize]byte(p.head[1:])); p.key == nil {
		return parts{}, ErrUnknownKey
	}
	return p, nil
}

func (r *Ring) find(id [keyIDSize]byte) *ringKey {
	keys := *r.keys.Load()
	for i := range keys {
		if keys[i].id == id {
			return &keys[i]
		}
	}
	return nil
}
