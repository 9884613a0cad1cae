package adapter

import "encoding/binary"

// fields appends tagged fields.
type fields []byte

func newFields(form byte, room int) fields {
	return append(make(fields, 0, room+64), wireVersion, form)
}

func (f *fields) bytes(tag byte, value []byte) {
	if value == nil {
		return
	}
	*f = append(*f, tag)
	*f = binary.AppendUvarint(*f, uint64(len(value)))
	*f = append(*f, value...)
}

func (f *fields) text(tag byte, value string) {
	if value == "" {
		return
	}
	*f = append(*f, tag)
	*f = binary.AppendUvarint(*f, uint64(len(value)))
	*f = append(*f, value...)
}

func (f *fields) number(tag byte, value uint64) {
	if value == 0 {
		return
	}
	var space [binary.MaxVarintLen64]byte
	f.bytes(tag, binary.AppendUvarint(space[:0], value))
}

func (f *fields) flag(tag byte, value bool) {
	if value {
		f.number(tag, 1)
	}
}

// item is a field that was read. Its value aliases the message.
type item struct {
	tag   byte
	value []byte
}

func (f item) number() uint64 {
	n, size := binary.Uvarint(f.value)
	if size <= 0 {
		return 0
	}
	return n
}

// readForm checks what a message begins with.
func readForm(message []byte) (form byte, rest []byte, err error) {
	if len(message) < 2 || message[0] != wireVersion {
		return 0, nil, errWire
	}
	return message[1], message[2:], nil
}

// readFields yields the fields of a message. It reports false where they are
// cut.
func readFields(b []byte, yield func(item)) bool {
	for len(b) > 0 {
		tag := b[0]
		n, size := binary.Uvarint(b[1:])
		if size <= 0 || n > uint64(len(b)-1-size) {
			return false
		}
		b = b[1+size:]
		yield(item{tag, b[:n:n]})
		b = b[n:]
	}
	return true
}
