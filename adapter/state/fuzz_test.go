package state

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"
)

// FuzzOpen reads bytes as each thing that this package reads: a token's text, a
// sealed message, and what is behind the authentication of a token.
func FuzzOpen(f *testing.F) {
	r := newRing(f, NewKey(), Key{1})
	fixed := newRing(f, Key{1}) // seeds in the corpus stay of use
	for _, tok := range []*Token{{}, sample(), parked()} {
		f.Add(fixed.Seal(nil, tok))
		f.Add(tok.appendPlain(nil))
		f.Add(fixed.SealMessage(nil, tok.appendPlain(nil), purpose))
	}
	f.Add([]byte("AQAAAAA"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		again := func(tok Token) {
			if !tok.Valid() {
				t.Fatalf("read, but not valid: %+v", tok)
			}
			got, err := r.Open(r.Seal(nil, &tok), math.MaxInt)
			if err != nil || !reflect.DeepEqual(got, tok) {
				t.Fatalf("sealed again: got %+v, %v; want %+v", got, err, tok)
			}
		}
		known := func(err error) {
			if !errors.Is(err, ErrTampered) && !errors.Is(err, ErrUnknownKey) &&
				!errors.Is(err, ErrTooLong) && !errors.Is(err, ErrVersion) {
				t.Fatalf("an error of its own: %v", err)
			}
		}
		// As a client sends it.
		if tok, err := r.Open(data, limit); err == nil {
			again(tok)
		} else {
			known(err)
		}
		// As it comes over the bus, and as it may go there.
		if _, err := r.OpenMessage(nil, data, purpose); err != nil {
			known(err)
		}
		sealed := r.SealMessage(nil, data, data)
		if got, err := r.OpenMessage(nil, sealed, data); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("message: got %x, %v; want %x", got, err, data)
		}
		// As what a key holder may have sealed: behind the authentication.
		var plain Token
		if plain.readPlain(data) {
			if form := plain.appendPlain(nil); !bytes.Equal(form, data) {
				t.Fatalf("two plain forms of one token: %x and %x", data, form)
			}
			again(plain)
		}
	})
}
