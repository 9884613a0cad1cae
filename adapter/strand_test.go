package adapter

import (
	"slices"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// The connection breaks on which an answer goes to the server, which may have
// it or not: asked on the call's stream, opened anew, the server is given it
// again, also by a tool that may not run twice.
func TestAnswerWhosePostBreaks(t *testing.T) {
	t.Parallel()
	two := `{"elicitation-1":{"action":"accept","content":{"a":"1"}},"elicitation-2":{"action":"accept","content":{"b":"2"}}}`
	for name, tt := range map[string]struct {
		responses string
		breaks    string // the id of the answer whose post breaks
		want      []string
	}{
		"the only one": {accept("elicitation-1", "a", "1"), "0", []string{"0", "0"}},
		"the first":    {two, "0", []string{"0", "0", "1"}},
		"the second":   {two, "1", []string{"0", "1", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.raw.Tool("tool", func(c *rawserver.Call) {
				a := c.Start(mcp.MethodElicit, askFor("a"))
				if tt.responses == two {
					b := c.Start(mcp.MethodElicit, askFor("b"))
					c.Text(a.Wait().Content("a") + b.Wait().Content("b"))
					return
				}
				c.Text(a.Wait().Content("a"))
			})
			q := toolCall("tool")
			o := r.play(q)
			r.raw.Once(func(record *rawserver.Record) bool {
				return len(record.Messages) == 1 && record.Messages[0].Method == "" && string(record.Messages[0].ID) == tt.breaks
			}, func(x *rawserver.Exchange) { x.Drop() })
			if got, want := r.play(q.retry(o, tt.responses)).text(t), "12"[:len(o.Inputs)]; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			var posted []string
			for _, m := range r.raw.Responses() {
				posted = append(posted, string(m.ID))
			}
			if !slices.Equal(posted, tt.want) {
				t.Errorf("answers to %q were posted, want %q", posted, tt.want)
			}
			if n := r.raw.ToolCalls("tool"); n != 1 {
				t.Errorf("the tool ran %d times", n)
			}
		})
	}
}
