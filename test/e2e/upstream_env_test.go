package e2e

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// askName is a form elicitation that wants a name.
const askName = `{"message":"Name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}`

// posted are the requests with this JSON-RPC method, in the order of arrival.
func posted(s *rawserver.Server, method string) (list []*rawserver.Record) {
	for _, r := range s.Records() {
		if r.Method() == method {
			list = append(list, r)
		}
	}
	return list
}

// sent are the requests with this HTTP method, in the order of arrival.
func sent(s *rawserver.Server, method string) (list []*rawserver.Record) {
	for _, r := range s.Records() {
		if r.HTTP == method {
			list = append(list, r)
		}
	}
	return list
}

// spoken are the requests without the question for the server's era.
func spoken(s *rawserver.Server) (list []*rawserver.Record) {
	for _, r := range s.Records() {
		if r.Header.Get("Mcp-Method") != "server/discover" { // which over HTTP+SSE is refused, and no message
			list = append(list, r)
		}
	}
	return list
}

// sessionOf is the session that a request names.
func sessionOf(r *rawserver.Record) string { return r.Session }

// sessionsOf are the sessions that requests with a JSON-RPC method name.
func sessionsOf(s *rawserver.Server, method string) (ids []string) {
	for _, r := range posted(s, method) {
		ids = append(ids, sessionOf(r))
	}
	return ids
}

// distinct is how many different texts there are.
func distinct(texts []string) int {
	seen := map[string]bool{}
	for _, s := range texts {
		seen[s] = true
	}
	return len(seen)
}

// sameJSON compares two JSON texts by what they mean.
func sameJSON(t testing.TB, got, want []byte) bool {
	t.Helper()
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if err := json.Unmarshal(want, &b); err != nil {
		t.Fatalf("%v: %s", err, want)
	}
	return reflect.DeepEqual(a, b)
}

// at is the raw value at a path of names inside an object, or nil.
func at(raw json.RawMessage, path ...string) json.RawMessage {
	for _, name := range path {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return nil
		}
		raw = object[name]
	}
	return raw
}

// mayHaveRun is the error's data.mayHaveRun.
func mayHaveRun(t testing.TB, r *Reply) bool {
	t.Helper()
	if r.Error == nil {
		t.Fatalf("no error: %s", r.Body)
	}
	return string(at(r.Error.Data, "mayHaveRun")) == "true"
}

// gate is what a test holds something up with.
type gate chan struct{}

func newGate(t testing.TB) gate {
	g := make(gate)
	t.Cleanup(g.open) // or nothing behind it would end
	return g
}

// open lets everything pass. More than once is fine.
func (g gate) open() {
	select {
	case <-g:
	default:
		close(g)
	}
}

// holding makes a tool that answers with its argument "say" once the gate is
// open, or not at all once it is cancelled.
func (g gate) holding(c *rawserver.Call) {
	select {
	case <-g:
		c.Text("said " + c.Argument("say"))
	case <-c.Context().Done():
	}
}

// saying answers with the argument "say".
func saying(c *rawserver.Call) { c.Text("said " + c.Argument("say")) }

// greeting asks for a name on the call's own stream.
func greeting(c *rawserver.Call) {
	c.Text("Hello " + c.Ask("elicitation/create", askName).Content("name"))
}

// away closes a server, and returns once nobody listens at its address: a program
// that another test starts just then has a copy of the listening socket for a
// moment.
func away(t *testing.T, server *rawserver.Server) {
	t.Helper()
	server.Close()
	address := ""
	if u := to(server); u.Command != nil {
		address = u.Command[len(u.Command)-1]
	} else {
		address = strings.TrimPrefix(baseOf(u.URL), "http://")
	}
	look := time.NewTicker(time.Millisecond) // nobody tells
	defer look.Stop()
	for give := time.Now().Add(patience); listens(address); <-look.C {
		if time.Now().After(give) {
			t.Fatalf("somebody listens at %s although the server has gone", address)
		}
	}
}

// gauge adds up the series of a metric, over all replicas.
func gauge(t testing.TB, h *Holdfast, name string) (sum float64) {
	t.Helper()
	sum, found := h.sum(t, name)
	if !found {
		t.Fatalf("there is no metric %s", name)
	}
	return sum
}

// settles waits until a metric satisfies a condition. A process tells nobody
// when its metrics change, so they are read again and again.
func settles(t testing.TB, h *Holdfast, name string, what string, ok func(float64) bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got := gauge(t, h, name)
		if ok(got) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %v after %v, want %s", name, got, patience, what)
		}
		<-tick.C
	}
}

// reaches waits until a metric has a value.
func reaches(t testing.TB, h *Holdfast, name string, want float64) {
	t.Helper()
	settles(t, h, name, strconv.FormatFloat(want, 'f', -1, 64), func(got float64) bool { return got == want })
}
