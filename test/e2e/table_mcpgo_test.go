package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// mcpgoTable is a process of a server of mcp-go. Whoever asks for a revision that
// it knows gets that, over every transport, so no combination is left out.
func mcpgoTable(t *testing.T, transport rawserver.Transport, revision mcp.Revision) Upstream {
	path, err := mcpgoserver()
	if err != nil {
		t.Fatal(err)
	}
	return program(t, path, transport, revision)
}

// mcpgoInstead is what mcp-go does in its own way. Its notifications have no
// order, neither with its results nor among themselves, so that the client waits
// for them before the tool goes on. Its sessions over HTTP+SSE can ask the client nothing.
func mcpgoInstead(transport rawserver.Transport) map[string]play {
	instead := map[string]play{"progress": progressInTurns, "log": logInTurns}
	if transport == rawserver.SSE {
		instead["elicitation"] = cannotAsk("elicit", "session does not support elicitation")
		instead["sampling"] = cannotAsk("sample", "session does not support sampling")
		instead["roots"] = cannotAsk("roots", "session does not support roots")
		instead["parallel calls"] = parallelEchoes
	}
	return instead
}

// goOn lets a tool go on that waits. Calls that cannot be asked anything are on
// one session, and so in one process.
func goOn(t *testing.T, h *Holdfast) {
	t.Helper()
	if got := h.Send(t, CallTool("go_on", map[string]any{}, Caps(NoCapabilities))).Text(t); got != "gone on" {
		t.Fatalf("got %q", got)
	}
}

func progressInTurns(t *testing.T, h *Holdfast, _ mcp.Revision) {
	stream := h.Open(t, CallTool("progress", map[string]any{}, Progress("mine"), Caps(NoCapabilities)))
	for i := range 2 {
		n := stream.Notification("notifications/progress")
		has(t, "the notification", string(n.Params), `"progressToken":"mine"`, fmt.Sprintf(`"progress":%d`, i+1))
		goOn(t, h)
	}
	endsWith(t, stream, "done")
}

// logInTurns goes from the lowest level to none: what comes too late of a call,
// whose client did not wait for it, is below the level of the next.
func logInTurns(t *testing.T, h *Holdfast, _ mcp.Revision) {
	for _, test := range []struct {
		level string
		want  []string
	}{
		{"debug", []string{`"at debug"`, `"at error"`}},
		{"warning", []string{`"at error"`}},
		{"", nil},
	} {
		changes := []func(*Message){Caps(NoCapabilities)}
		if test.level != "" {
			changes = append(changes, Level(test.level))
		}
		stream := h.Open(t, CallTool("log", map[string]any{}, changes...))
		var got []string
		for range test.want {
			got = append(got, string(at(stream.Notification("notifications/message").Params, "data")))
		}
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("got %s with level %q, want %s", got, test.level, test.want)
		}
		goOn(t, h)
		endsWith(t, stream, "logged")
	}
}

// endsWith reads what is left of a stream: a text, and nothing before it.
func endsWith(t *testing.T, stream *Stream, want string) {
	t.Helper()
	reply := stream.Reply()
	if got := reply.Text(t); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, m := range reply.Messages {
		if m.Method != "" {
			t.Errorf("got %s as well", m.Raw)
		}
	}
}

// cannotAsk calls a tool that would ask its client something. The client gets
// what the server says of that.
func cannotAsk(tool, says string) play {
	return func(t *testing.T, h *Holdfast, _ mcp.Revision) {
		reply := h.Send(t, CallTool(tool, map[string]any{"text": "a"}))
		reply.Completes(t)
		has(t, "the result", string(reply.Result), `"isError":true`, says)
	}
}

// parallelEchoes are calls beside each other that are asked nothing.
func parallelEchoes(t *testing.T, h *Holdfast, _ mcp.Revision) {
	const calls = 4
	var streams [calls]*Stream
	for i := range streams {
		streams[i] = h.Open(t, CallTool("echo", map[string]any{"text": fmt.Sprint(i)}, ID("same")))
	}
	for i, s := range streams {
		if got := s.Reply().Text(t); got != fmt.Sprint(i) {
			t.Errorf("got %q, want %d", got, i)
		}
	}
}
