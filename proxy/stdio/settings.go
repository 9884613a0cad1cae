package stdio

import (
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/dialect"
)

// Settings say what is served and what is borne. Every limit and duration must
// be set; the configuration holds the defaults.
type Settings struct {
	Upstream string // what is served
	// Principal is who is at the other end; the same text is the same caller, in
	// another process too.
	Principal string

	// Dialects are those that the client may speak; nil for MRTR alone.
	Dialects *dialect.Set

	MaxLine     int // bytes of a message
	MaxDepth    int // nesting of a message's JSON
	MaxRequests int // in flight

	WriteTimeout time.Duration // for a message to be taken by the client
}
