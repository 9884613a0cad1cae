package proxy

import (
	"bytes"
	"encoding/base64"
	"errors"
	"unicode/utf8"
)

// Values that no plain header value can carry come as
// =?base64?{Base64 of the UTF-8 text}?= (spec 2026-07-28,
// basic/transports/streamable-http, "Value Encoding"). Without both markers
// a value is literal.
const (
	sentinelPrefix = "=?base64?"
	sentinelSuffix = "?="
)

var (
	errCharacters = errors.New("has characters that no header value may have")
	errBase64     = errors.New("is marked as Base64 but is not valid Base64 of UTF-8 text")
)

// decodeValue returns the text that a header value stands for. It aliases
// value or is appended to room, which is returned for the next use.
//
// Hot: once per request for Mcp-Name.
func decodeValue(value, room []byte) (text, _ []byte, err error) {
	for _, c := range value {
		if (c < ' ' || c > '~') && c != '\t' {
			return nil, room, errCharacters
		}
	}
	if len(value) < len(sentinelPrefix)+len(sentinelSuffix) ||
		string(value[:len(sentinelPrefix)]) != sentinelPrefix || !bytes.HasSuffix(value, []byte(sentinelSuffix)) {
		return value, room, nil
	}
	encoded := value[len(sentinelPrefix) : len(value)-len(sentinelSuffix)]
	room, err = strictBase64.AppendDecode(room[:0], encoded)
	if err != nil || !utf8.Valid(room) {
		return nil, room, errBase64
	}
	return room, room, nil
}

// strictBase64 refuses bits that padding hides, so that a text has one form.
var strictBase64 = base64.StdEncoding.Strict()
