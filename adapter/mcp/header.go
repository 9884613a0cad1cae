package mcp

import (
	"encoding/base64"
	"strings"
)

const (
	sentinelStart = "=?base64?"
	sentinelEnd   = "?="
)

// HeaderValue writes a text so that it can be an HTTP header value: as it is, or
// in the Base64 sentinel form (spec 2026-07-28, basic/transports/streamable-http,
// "Value Encoding"). An empty text takes the sentinel too, because some servers
// and intermediaries take an empty header for a missing one.
func HeaderValue(text string) string {
	if plainHeader(text) {
		return text
	}
	return sentinelStart + base64.StdEncoding.EncodeToString([]byte(text)) + sentinelEnd
}

func plainHeader(text string) bool {
	if text == "" || strings.Trim(text, " \t") != text {
		return false
	}
	for i := range len(text) {
		if c := text[i]; c != '\t' && (c < 0x20 || c > 0x7E) {
			return false
		}
	}
	return !strings.HasPrefix(text, sentinelStart) || !strings.HasSuffix(text, sentinelEnd)
}
