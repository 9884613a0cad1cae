package adapter

import (
	"fmt"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// A retry may reach any replica: the owner serves it.
func TestRetryAtAnotherReplica(t *testing.T) {
	t.Parallel()
	f := newReplicas(t, 3)
	f.raw.Tool("greet", greet)
	q := toolCall("greet")
	first := f.rigs[0].served(q, ServedLocal)
	second := f.rigs[1].served(q.retry(first, accept("elicitation-1", "name", "Ada")), ServedForwarded)
	if got := second.asked(t); got != "elicitation-2" {
		t.Fatalf("asked %q", got)
	}
	last := f.rigs[2].served(q.retry(second, accept("elicitation-2", "title", "Dr")), ServedForwarded)
	if got := last.text(t); got != "Dr Ada" {
		t.Errorf("got %q", got)
	}
	if string(last.ServerInfo) == "" {
		t.Error("the server's name is lost on the way")
	}
	want := fmt.Sprint([]string{`r1:0={"action":"accept","content":{"name":"Ada"}}`, `r1:1={"action":"accept","content":{"title":"Dr"}}`})
	if got := fmt.Sprint(f.posted()); got != want {
		t.Errorf("the server got %s, want %s", got, want)
	}
	_ = mcp.MethodElicit
	_ = rawserver.Settings{}
}
