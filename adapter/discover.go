package adapter

import (
	"bytes"
	"context"
	"slices"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// discover answers server/discover from what the server said at initialize:
// legacy servers do not know the method.
func (c *call) discover() {
	c.eligible = false
	if s := c.up.Server.TryAcquire(&c.key, false); s != nil {
		c.discovered(s)
		return
	}
	c.key.ClientInfo = bytes.Clone(c.key.ClientInfo)
	c.key.Extra = bytes.Clone(c.key.Extra)
	ctx, cancel := context.WithCancel(c.engine.ctx)
	c.stop, c.driver = cancel, byGoroutine
	c.engine.calls.watch(c)
	c.arm()
	c.engine.wg.Add(1)
	go func() {
		defer c.engine.wg.Done()
		defer cancel()
		s, err := c.up.Server.Acquire(ctx, &c.key, false, c.creds)
		if err != nil {
			c.fail(asRefusal(err, false))
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.discovered(s)
		c.wake()
	}()
}

// discovered ends the call with the result, and gives the session back. mu is
// held.
func (c *call) discovered(s *legacy.Session) {
	was := c.phase
	if c.enter(done) {
		info := s.Info()
		c.result = &Outcome{Method: c.method, Result: discoverResult(info, c.engine.settings.Extensions), ServerInfo: info.ServerInfo, Cache: c.up.Cache}
		c.settle(was)
	}
	s.Return(false)
}

// discoverResult: spec 2026-07-28, server/discover.
func discoverResult(info *legacy.Info, ours []Extension) []byte {
	const start = `{"supportedVersions":["` + mcp.Modern + `"],"capabilities":{`
	// tasks is legacy; the extension of that name is another protocol.
	out := jsonrpc.AppendMembers([]byte(start), info.Capabilities, func(name []byte) bool {
		return string(name) == "tasks" || string(name) == "extensions" && len(ours) > 0
	})
	if len(ours) > 0 {
		if len(out) > len(start) {
			out = append(out, ',')
		}
		out = appendExtensions(append(out, `"extensions":`...), jsonrpc.Get(info.Capabilities, "extensions"), ours)
	}
	out = append(out, '}')
	if info.Instructions != nil {
		out = append(append(out, `,"instructions":`...), info.Instructions...)
	}
	return append(out, '}')
}

// appendExtensions appends the server's own extensions and ours, which win.
func appendExtensions(dst, own []byte, ours []Extension) []byte {
	dst = append(dst, '{')
	start := len(dst)
	dst = jsonrpc.AppendMembers(dst, own, func(name []byte) bool {
		return slices.ContainsFunc(ours, func(e Extension) bool { return e.Name == string(name) })
	})
	for _, e := range ours {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(append(jsonrpc.AppendQuote(dst, e.Name), ':'), e.Value...)
	}
	return append(dst, '}')
}
