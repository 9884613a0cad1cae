package state

// A sealed message has the layout of a sealed token, with a version of its own
// and without base64. The additional data is version, key id and context.
// Versions of messages have the high bit set and those of tokens do not, so that
// neither opens as the other.
const messageVersion = 0x80 | 1

// MessageOverhead is how much longer a sealed message is than its plain text.
const MessageOverhead = minSize

// SealMessage appends plain, sealed, to dst: for what replicas send each other
// over a bus that is not trusted with it. Only OpenMessage with the same context
// opens it. The context is not part of the message, and tells what the message
// is for. Two seals of one text differ. plain must not lie in the room behind
// dst.
//
// With MessageOverhead bytes and those of plain free in dst it does not
// allocate. Hot: once per forwarded round.
func (r *Ring) SealMessage(dst, plain, context []byte) []byte {
	key := &(*r.keys.Load())[0]
	s := scratches.Get().(*scratch)
	defer s.put()

	start := len(dst)
	dst = append(dst, messageVersion)
	dst = append(dst, key.id[:]...)
	dst = s.appendNonce(dst)
	data := s.additional(dst[start:][:headSize], context)
	return key.aead.Seal(dst, dst[start+headSize:], plain, data)
}

// OpenMessage appends the plain text of a sealed message to dst. The bytes may
// be anything, are not kept and stay as they are. The room behind dst must not
// overlap them. Errors match ErrTampered, also where the context is another one,
// ErrUnknownKey or ErrVersion; the result is nil then.
//
// With the plain text's bytes free in dst it does not allocate. Hot: once per
// forwarded round.
func (r *Ring) OpenMessage(dst, sealed, context []byte) ([]byte, error) {
	p, err := r.takeApart(sealed, messageVersion)
	if err != nil {
		return nil, err
	}
	s := scratches.Get().(*scratch)
	defer s.put()

	dst, err = p.key.aead.Open(dst, p.nonce, p.sealed, s.additional(p.head, context))
	if err != nil {
		return nil, ErrTampered
	}
	return dst, nil
}

// additional joins head, which has the same length always, and context in the
// scratch's buffer.
func (s *scratch) additional(head, context []byte) []byte {
	s.buf = append(append(s.buf[:0], head...), context...)
	return s.buf
}
