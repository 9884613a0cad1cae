package load

import (
	"bytes"
	"strconv"

	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// request is a prebuilt message, as an HTTP request or a line, in which only two
// numbers change: the JSON-RPC id and the number in the call's text, which the
// result repeats.
type request struct {
	text   []byte
	id, at int // where the numbers are
	body   int // where the body begins
}

// The places of the two numbers in a body that newRequest is given.
const (
	idMark   = "ID########"
	textMark = "TEXT######"
)

// first is the least number: all have as many digits as a mark, so that no
// length ever changes.
const first = 1_000_000_000

// perSlot is how many numbers each slot has for itself.
const perSlot = 20_000_000

func newRequest(headers, body string) *request {
	r := &request{text: appendMessage(nil, headers, []byte(body))}
	r.body = bytes.Index(r.text, []byte(body))
	r.id = bytes.Index(r.text, []byte(idMark))
	r.at = bytes.Index(r.text, []byte(textMark))
	return r
}

// appendMessage appends a body behind the headers of a request over HTTP, or,
// where there are none, as a line.
func appendMessage(dst []byte, headers string, body []byte) []byte {
	if headers == "" {
		return append(append(dst, body...), '\n')
	}
	dst = wire.AppendLength(append(dst, headers...), len(body))
	return append(dst, body...)
}

// with sets the numbers and returns the whole request, valid until the next call.
func (r *request) with(id, number uint64) []byte {
	put(r.text, r.id, id)
	put(r.text, r.at, number)
	return r.text
}

// put writes a number of ten digits to a place in text, if there is one.
func put(text []byte, at int, n uint64) {
	if at >= 0 {
		strconv.AppendUint(text[at:at], n, 10)
	}
}

// call is the number of one call; its arguments' text is "bench-" and the
// number, and the answer that ask gets is "yes-" and the number.
type call uint64

// echoed reports whether a raw JSON string is the text of the call's arguments.
func (n call) echoed(raw []byte) bool { return n.follows(raw, `"bench-`) && len(raw) == 18 }

// asked reports whether a raw JSON string is what a tool that asks makes of the
// call's arguments and the answer, with so much of [wire.LargeText] behind it.
func (n call) asked(raw []byte, more int) bool {
	return len(raw) == 33+more && n.follows(raw, `"bench-`) && n.follows(raw[17:], `=yes-`) &&
		(more == 0 || bytes.Equal(raw[32:32+more], wire.LargeText()[:more]))
}

// follows reports whether raw begins with prefix and the call's number.
func (n call) follows(raw []byte, prefix string) bool {
	rest, ok := bytes.CutPrefix(raw, []byte(prefix))
	if !ok || len(rest) < 10 {
		return false
	}
	var digits [20]byte
	return bytes.Equal(rest[:10], strconv.AppendUint(digits[:0], uint64(n), 10))
}

// appendAnswer appends what the client answers to the question.
func (n call) appendAnswer(dst []byte) []byte {
	dst = append(dst, `{"action":"accept","content":{"answer":"yes-`...)
	dst = strconv.AppendUint(dst, uint64(n), 10)
	return append(dst, `"}}`...)
}

// resultText returns the raw text of the first content of a tool's result.
func resultText(result []byte) []byte {
	content := wire.Get(result, "content")
	if len(content) < 2 || content[0] != '[' {
		return nil
	}
	return wire.Get(content[1:], "text")
}
