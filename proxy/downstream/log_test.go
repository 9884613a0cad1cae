package downstream

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter"
)

// The log has the cause of a refusal, bounded; the client has not.
func TestCauseIsLogged(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string // in the log
	}{
		"none":  {&adapter.Refusal{Reason: adapter.ReasonOverload, Detail: "busy"}, `"error":"busy"`},
		"short": {&adapter.Refusal{Reason: adapter.ReasonUpstreamDown, Detail: "away", Err: errors.New("exit status 3")}, `"cause":"exit status 3"`},
		"long":  {&adapter.Refusal{Reason: adapter.ReasonUpstreamDown, Detail: "away", Err: errors.New("b" + strings.Repeat("x", 100_000) + "e")}, `xe"`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log := zerolog.New(&out).Level(zerolog.DebugLevel)
			reply := ReplyTo(test.err)
			reply.Log(&log, "tools/call")
			if got := out.String(); !strings.Contains(got, test.want) || !strings.Contains(got, `"message":"request refused"`) || len(got) > 2*maxCause {
				t.Errorf("logged %d bytes: %.300s", len(got), got)
			}
			if name == "none" == strings.Contains(out.String(), `"cause"`) {
				t.Errorf("logged %.300s", out.String())
			}
			if strings.Contains(reply.Err.Message+string(reply.Err.Data), "exit status") {
				t.Errorf("the client is told %s %s", reply.Err.Message, reply.Err.Data)
			}
		})
	}
}
