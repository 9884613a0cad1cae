package adapter

import (
	"bytes"
	"context"

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
func discoverResult(info *legacy.Info, extensions string) []byte {
	out := append([]byte(nil), `{"supportedVersions":["`+mcp.Modern+`"],"capabilities":{`...)
	// tasks is legacy; the extension of that name is another protocol.
	start := len(out)
	out = jsonrpc.AppendMembers(out, info.Capabilities, func(name []byte) bool { return string(name) == "tasks" || string(name) == "extensions" })
	if own := jsonrpc.AppendMembers(nil, jsonrpc.Get(info.Capabilities, "extensions"), isTasksExtension); len(own)+len(extensions) > 0 {
		if len(out) > start {
			out = append(out, ',')
		}
		out = append(append(out, `"extensions":{`...), own...)
		if len(own) > 0 && extensions != "" {
			out = append(out, ',')
		}
		out = append(append(out, extensions...), '}')
	}
	out = append(out, '}')
	if info.Instructions != nil {
		out = append(append(out, `,"instructions":`...), info.Instructions...)
	}
	return append(out, '}')
}

// isTasksExtension: no legacy server can mean this extension.
func isTasksExtension(name []byte) bool { return string(name) == mcp.ExtensionTasks }
