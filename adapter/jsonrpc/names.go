package jsonrpc

import (
	"encoding/binary"
	"hash/maphash"
	"unicode/utf8"
)

// name is one name of an open object.
type name struct {
	sum   uint64 // fingerprint or hash; equal names have equal ones
	start int    // in data, or, as ^start, in text
	len   int
}

// Up to this many names are compared one with another; more go into a hash
// table, so that a text's cost stays in proportion to its length.
const maxCompared = 16

// seed differs from process to process: nobody can prepare names that collide.
var seed = maphash.MakeSeed()

func (s *scanner) nameBytes(n name) []byte {
	if n.start < 0 {
		return s.text[^n.start:][:n.len]
	}
	return s.data[n.start:][:n.len]
}

// lastName is the name that was read last.
func (s *scanner) lastName() []byte { return s.nameBytes(s.names[len(s.names)-1]) }

// addName adds the name data[start:end] to the innermost object. It returns
// false when the object has the name already.
func (s *scanner) addName(start, end int, flags textFlags) bool {
	b, at := s.data[start:end], start
	if flags != 0 && (flags&textEscaped != 0 || !s.strict && !utf8.Valid(b)) {
		at = ^len(s.text)
		s.text, _ = appendText(s.text, b)
		b = s.text[^at:]
	}
	top := &s.open[len(s.open)-1]
	siblings := s.names[top.names:]
	if len(siblings) >= maxCompared {
		return s.addHashed(top, b, at)
	}
	sum := fingerprint(b)
	for i := range siblings {
		if siblings[i].sum == sum && string(s.nameBytes(siblings[i])) == string(b) {
			return false
		}
	}
	s.names = append(s.names, name{sum: sum, start: at, len: len(b)})
	return true
}

// fingerprint is a cheap digest that tells most names of a small object apart.
func fingerprint(b []byte) uint64 {
	n := len(b)
	switch {
	case n >= 8:
		return binary.LittleEndian.Uint64(b) ^ binary.LittleEndian.Uint64(b[n-8:])*0x9e3779b97f4a7c15 + uint64(n)
	case n >= 4:
		return uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[n-4:]))<<32
	case n > 0:
		return uint64(b[0]) | uint64(b[n/2])<<8 | uint64(b[n-1])<<16 | uint64(n)<<24
	}
	return 0
}

// addHashed is addName for an object with many names. Its table, as long as the
// object is the innermost one, lies at the end of slots. A slot holds the index
// of a name in the object plus one; zero is free.
func (s *scanner) addHashed(top *frame, b []byte, at int) bool {
	siblings := s.names[top.names:]
	table := s.slots[top.slots:]
	switch {
	case len(table) == 0:
		for i := range siblings {
			siblings[i].sum = maphash.Bytes(seed, s.nameBytes(siblings[i]))
		}
		table = s.rehash(top, 4*maxCompared)
	case 2*len(siblings) >= len(table):
		table = s.rehash(top, 4*len(table))
	}
	sum := maphash.Bytes(seed, b)
	mask := uint64(len(table) - 1)
	i := sum & mask
	for ; table[i] != 0; i = (i + 1) & mask {
		if n := siblings[table[i]-1]; n.sum == sum && string(s.nameBytes(n)) == string(b) {
			return false
		}
	}
	s.names = append(s.names, name{sum: sum, start: at, len: len(b)})
	table[i] = uint32(len(siblings) + 1)
	return true
}

// rehash gives the innermost object a table of the size, a power of two.
func (s *scanner) rehash(top *frame, size int) []uint32 {
	if need := top.slots + size; need <= cap(s.slots) {
		s.slots = s.slots[:need]
		clear(s.slots[top.slots:])
	} else {
		s.slots = append(s.slots[:top.slots], make([]uint32, size)...)
	}
	table := s.slots[top.slots:]
	mask := uint64(size - 1)
	for n, sibling := range s.names[top.names:] {
		i := sibling.sum & mask
		for table[i] != 0 {
			i = (i + 1) & mask
		}
		table[i] = uint32(n + 1)
	}
	return table
}
