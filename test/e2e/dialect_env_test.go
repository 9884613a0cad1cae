package e2e

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// turn is one request of a conversation and its answer, as JSON. <name> in an
// answer stands for a text that nobody can foresee, or ends a key with one; in a
// later request for that text.
type turn struct{ send, want string }

// bare is what a client sends in the header that knows nothing of the modern
// revision; dialect may be "".
func bare(dialect string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if dialect != "" {
		h.Set("Holdfast-Dialect", dialect)
	}
	return h
}

// recite plays a conversation, and compares all answers field by field.
func recite(t *testing.T, target Target, header http.Header, turns ...turn) {
	t.Helper()
	known := map[string]string{}
	for _, turn := range turns {
		turn.play(t, target, header, known)
	}
}

// play plays one turn; known are the texts that names stand for.
func (turn turn) play(t *testing.T, target Target, header http.Header, known map[string]string) {
	t.Helper()
	send, want := turn.send, turn.want
	for name, text := range known {
		if strings.Contains(send, name) { // and an answer that has it speaks of the same
			send, want = strings.ReplaceAll(send, name, text), strings.ReplaceAll(want, name, text)
		}
	}
	reply := Post(t, target.URL, send, header)
	got := parse(t, reply.Messages[len(reply.Messages)-1].Raw)
	if !alike(parse(t, []byte(want)), got, known) {
		t.Fatalf("%s\nis answered with HTTP %d\n%s\nwant\n%s", send, reply.Status, reply.Body, want)
	}
}

// alike compares JSON values, and notes what the names in want stand for.
func alike(want, got any, known map[string]string) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(w) != len(g) {
			return false
		}
		for name, value := range w {
			if start, of, open := strings.Cut(name, "<"); open {
				for key := range g {
					if rest, ok := strings.CutPrefix(key, start); ok && rest != "" {
						known["<"+of], name = rest, key
					}
				}
			}
			if v, ok := g[name]; !ok || !alike(value, v, known) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(w) != len(g) {
			return false
		}
		for i := range w {
			if !alike(w[i], g[i], known) {
				return false
			}
		}
		return true
	case string:
		g, ok := got.(string)
		if ok && strings.HasPrefix(w, "<") && g != "" {
			known[w] = g
			return true
		}
		return ok && w == g
	}
	return reflect.DeepEqual(want, got)
}

// overEach runs a test with a server behind every transport. The upstream's entry
// has more in it, as YAML within braces.
func overEach(t *testing.T, more, config string, tools func(*rawserver.Server), test func(*testing.T, *rawserver.Server, *Holdfast)) {
	for name, transport := range map[string]rawserver.Transport{
		"Streamable HTTP": rawserver.Streamable, "HTTP+SSE": rawserver.SSE, "stdio": rawserver.Stdio,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := rawserver.New(t, rawserver.Settings{Transport: transport})
			tools(server)
			test(t, server, Start(t, Options{Config: "upstreams: [{" + to(server).YAML() + more + "}]\n" + config}))
		})
	}
}

// keyed is a question's params with a hint for its key.
func keyed(key, params string) string {
	return `{"_meta":{"dev.holdfast/key":"` + key + `"},` + strings.TrimPrefix(strings.TrimSpace(params), "{")
}
