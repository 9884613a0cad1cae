package e2e

import (
	"testing"

	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

// Some SDKs say ttlMs 0 where nobody has thought of it: then cache.ttl of the
// operator stands. A positive word of the server stands itself.
func TestCacheTTL(t *testing.T) {
	t.Parallel()
	server := newServer(t, rawserver.Settings{JSON: true})
	defaults := Start(t, Options{Upstream: to(server)})
	configured := Start(t, Options{Config: `upstreams: [{name: raw, ` + to(server).YAML() + `, path: /mcp, cache: {ttl: 90s}}]`})
	for _, test := range []struct{ hint, plain, set string }{
		{``, `0`, `90000`},
		{`,"ttlMs":0`, `0`, `90000`},
		{`,"ttlMs":5`, `5`, `5`},
		{`,"ttlMs":3600000`, `3600000`, `3600000`},
		{`,"ttlMs":-5`, `0`, `90000`},
	} {
		server.Handle("prompts/list", func(c *rawserver.Call) { c.Result(`{"prompts":[]` + test.hint + `}`) })
		same(t, "ttlMs beside"+test.hint, defaults.Send(t, Request("prompts/list", nil)).Completes(t)["ttlMs"], test.plain)
		same(t, "ttlMs of the operator's 90 s beside"+test.hint, configured.Send(t, Request("prompts/list", nil)).Completes(t)["ttlMs"], test.set)
	}
}
