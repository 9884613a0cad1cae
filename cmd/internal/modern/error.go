package modern

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var (
	// ErrTooLarge: a message is larger than MaxMessage.
	ErrTooLarge = fmt.Errorf("message is larger than %d bytes", MaxMessage)
	// ErrBroken: the answer is not what the revision allows.
	ErrBroken = errors.New("the server broke the protocol")
	// ErrRounds: the server kept asking.
	ErrRounds = fmt.Errorf("no result after %d rounds", maxRounds)
)

// RPCError is the JSON-RPC error that a request was answered with.
type RPCError struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data,omitzero"`
}

func (e *RPCError) Error() string {
	text := fmt.Sprintf("error %d: %s", e.Code, e.Message)
	if reason := e.Reason(); reason != "" {
		text += " (reason: " + reason + ")"
	}
	return text
}

// Reason returns the text data.reason, with which Holdfast tells errors of one
// code apart, or "".
func (e *RPCError) Reason() string {
	var data struct {
		Reason string `json:"reason"`
	}
	if len(e.Data) == 0 || json.Unmarshal(e.Data, &data, lenient) != nil {
		return ""
	}
	return data.Reason
}

// HTTPError is an HTTP answer that carries no JSON-RPC message.
type HTTPError struct {
	Status int
	Header http.Header
	Body   string // its beginning
}

func (e *HTTPError) Error() string {
	text := fmt.Sprintf("HTTP %d %s", e.Status, http.StatusText(e.Status))
	for _, name := range []string{"WWW-Authenticate", "Retry-After", "Location"} {
		if value := e.Header.Get(name); value != "" {
			text += fmt.Sprintf(" (%s: %s)", name, value)
		}
	}
	if e.Body != "" {
		text += ": " + strings.TrimSpace(e.Body)
	}
	return text
}
