package adapter

import (
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
	"github.com/holdfast-mcp/holdfast/test/fixture/rawserver"
)

func TestDiscover(t *testing.T) {
	r := newRig(t, func(_ *Settings, _ *legacy.Settings, raw *rawserver.Settings) {
		raw.Capabilities, raw.Instructions = `{"tools":{},"tasks":{"list":{}},"experimental":{"x":1.0}}`, "Say \"please\"."
	})
	const want = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"experimental":{"x":1.0}},"instructions":"Say \"please\"."}`
	for range 2 {
		o := r.play(query{method: mcp.MethodDiscover})
		if string(o.Result) != want || string(o.ServerInfo) != `{"name":"rawserver","version":"1.0.0"}` {
			t.Errorf("got %s of server %s, want %s", o.Result, o.ServerInfo, want)
		}
	}
}
