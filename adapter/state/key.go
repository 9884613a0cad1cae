package state

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// ErrKey is what a text or a set of keys that cannot be used is refused with.
var ErrKey = errors.New("not a usable request-state key")

// Key is a secret of 32 random bytes. It prints as its public id whatever the
// verb and in JSON, so that it does not end up in a log by accident; Hex gives
// the secret itself. The zero Key is refused wherever a key is used.
type Key [32]byte

const (
	keyIDSize = 4
	// keyIDDomain keeps the public id apart from any other hash of a key.
	keyIDDomain = "holdfast request-state key id\x00"
)

// NewKey makes a random key.
func NewKey() Key {
	var k Key
	rand.Read(k[:]) // never fails: crypto/rand ends the process instead
	return k
}

// ParseKey reads a key of exactly 64 hexadecimal digits. Its errors match
// ErrKey and say nothing of the text but its length.
func ParseKey(text string) (Key, error) {
	var k Key
	if len(text) != hex.EncodedLen(len(k)) {
		return Key{}, fmt.Errorf("%w: want 64 hexadecimal digits, have %d characters", ErrKey, len(text))
	}
	if _, err := hex.Decode(k[:], []byte(text)); err != nil {
		// The cause would quote a character of the secret.
		return Key{}, fmt.Errorf("%w: want 64 hexadecimal digits, have another character among them", ErrKey)
	}
	if k == (Key{}) {
		return Key{}, fmt.Errorf("%w: all digits are zero", ErrKey)
	}
	return k, nil
}

// Hex is the secret as ParseKey reads it.
func (k Key) Hex() string { return hex.EncodeToString(k[:]) }

// ID tells keys apart in logs. It stands in the clear in every token that the
// key seals and gives nothing of the key away.
func (k Key) ID() string {
	id := k.id()
	return hex.EncodeToString(id[:])
}

// String is the key's public id, not the secret.
func (k Key) String() string { return "key:" + k.ID() }

// Format prints String for every verb and flag.
func (k Key) Format(s fmt.State, _ rune) { io.WriteString(s, k.String()) }

// MarshalText gives String, so that encoders do not print the array.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

func (k Key) id() (id [keyIDSize]byte) {
	sum := sha256.Sum256(append([]byte(keyIDDomain), k[:]...))
	copy(id[:], sum[:])
	return id
}
