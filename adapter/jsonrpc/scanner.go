package jsonrpc

import "sync"

// scanner checks a text in one pass. What it needs per open object lies on
// stacks that are kept from one text to the next.
type scanner struct {
	data     []byte
	strict   bool
	maxDepth int

	open  []frame  // arrays and objects that are open, outermost first
	names []name   // names of all open objects
	slots []uint32 // hash tables of the open objects with many names
	text  []byte   // names that do not stand in data as they are compared

	err error // one of the Err values
	at  int   // where
}

// frame is an open array or object, and where its part of the stacks begins.
type frame struct {
	object             bool
	names, slots, text int
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

func newScanner(data []byte, mode Mode, maxDepth int) *scanner {
	s := scanners.Get().(*scanner)
	s.data, s.strict, s.maxDepth = data, mode == Strict, maxDepth
	s.err = nil
	s.open, s.names, s.slots, s.text = s.open[:0], s.names[:0], s.slots[:0], s.text[:0]
	return s
}

// Stacks that a hostile text made larger than this do not stay in the pool.
const maxKept = 4 << 10

func (s *scanner) free() {
	s.data = nil
	if cap(s.open) > maxKept {
		s.open = nil
	}
	if cap(s.names) > maxKept {
		s.names = nil
	}
	if cap(s.slots) > 4*maxKept {
		s.slots = nil
	}
	if cap(s.text) > 4*maxKept {
		s.text = nil
	}
	scanners.Put(s)
}

// fail notes the first fault; it returns -1 for the callers to return.
func (s *scanner) fail(err error, at int) int {
	s.err, s.at = err, at
	return -1
}

func (s *scanner) fault() error { return &fault{err: s.err, offset: s.at} }

// end reports whether nothing but space follows.
func (s *scanner) end(i int) bool {
	if i = skipSpace(s.data, i); i < len(s.data) {
		s.fail(ErrSyntax, i)
		return false
	}
	return true
}

func (s *scanner) push(object bool, at int) bool {
	if len(s.open) >= s.maxDepth {
		s.fail(ErrDepth, at)
		return false
	}
	s.open = append(s.open, frame{object: object, names: len(s.names), slots: len(s.slots), text: len(s.text)})
	return true
}

func (s *scanner) pop() {
	top := &s.open[len(s.open)-1]
	s.names, s.slots, s.text = s.names[:top.names], s.slots[:top.slots], s.text[:top.text]
	s.open = s.open[:len(s.open)-1]
}

// value reads one value, which may have space before it, and returns its end,
// or -1. It does not recurse: a text must not decide how much stack it takes.
func (s *scanner) value(i int) int {
	data, base := s.data, len(s.open)
due: // a value is due at i
	for {
		if i < len(data) && data[i] <= ' ' {
			i = skipSpace(data, i)
		}
		if i >= len(data) {
			return s.fail(ErrSyntax, i)
		}
		switch c := data[i]; c {
		case '"':
			end, flags := scanString(data, i+1, s.strict)
			if flags&textFaults != 0 {
				return s.failText(flags, end)
			}
			i = end
		case '{':
			if !s.push(true, i) {
				return -1
			}
			if i = skipSpace(data, i+1); i < len(data) && data[i] == '}' {
				s.pop()
				i++
				break
			}
			if i = s.name(i); i < 0 {
				return -1
			}
			continue due
		case '[':
			if !s.push(false, i) {
				return -1
			}
			if i = skipSpace(data, i+1); i < len(data) && data[i] == ']' {
				s.pop()
				i++
				break
			}
			continue due
		case 't', 'f', 'n':
			end := scanLiteral(data, i)
			if end < 0 {
				return s.fail(ErrSyntax, i)
			}
			i = end
		default:
			end, _ := scanNumber(data, i)
			if end < 0 {
				return s.fail(ErrSyntax, i)
			}
			i = end
		}
		for len(s.open) > base { // a value has ended at i
			if i < len(data) && data[i] <= ' ' {
				i = skipSpace(data, i)
			}
			if i >= len(data) {
				return s.fail(ErrSyntax, i)
			}
			object := s.open[len(s.open)-1].object
			switch c := data[i]; {
			case c == ',':
				i++
				if object {
					if i = s.name(i); i < 0 {
						return -1
					}
				}
				continue due
			case c == '}' && object, c == ']' && !object:
				s.pop()
				i++
			default:
				return s.fail(ErrSyntax, i)
			}
		}
		return i
	}
}

// name reads a name of the innermost object and the colon after it. It returns
// where the value begins or the space before it, or -1.
func (s *scanner) name(i int) int {
	data := s.data
	if i < len(data) && data[i] <= ' ' {
		i = skipSpace(data, i)
	}
	if i >= len(data) || data[i] != '"' {
		return s.fail(ErrSyntax, i)
	}
	start := i + 1
	end, flags := scanString(data, start, s.strict)
	if flags&textFaults != 0 {
		return s.failText(flags, end)
	}
	if !s.addName(start, end-1, flags) {
		return s.fail(ErrDuplicate, i)
	}
	i = end
	if i < len(data) && data[i] <= ' ' {
		i = skipSpace(data, i)
	}
	if i >= len(data) || data[i] != ':' {
		return s.fail(ErrSyntax, i)
	}
	return i + 1
}

func (s *scanner) failText(flags textFlags, at int) int {
	if flags&textBadUTF8 != 0 {
		return s.fail(ErrUTF8, at)
	}
	return s.fail(ErrSyntax, at)
}
