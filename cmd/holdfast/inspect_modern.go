package main

import (
	"context"
	"strconv"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// inspectModern looks at a server that needs no Holdfast: what it says of itself
// stands in the answer to server/discover.
func inspectModern(ctx context.Context, server *legacy.Server, creds legacy.Credentials) (*Survey, error) {
	m := &modernServer{ctx: ctx, server: server, creds: creds}
	said, err := m.ask(mcp.MethodDiscover, nil)
	if err != nil {
		return nil, err
	}
	f := &Survey{
		PushesOutside: new(bool),
		Era:           legacy.EraModern.String(), Transport: legacy.TransportStreamable.String(), Revision: mcp.Modern,
		Server:       jsonrpc.Get(jsonrpc.Get(said, "_meta"), mcp.MetaServerInfo),
		Capabilities: jsonrpc.Get(said, "capabilities"), Instructions: jsonrpc.IsString(jsonrpc.Get(said, "instructions")),
		Holdfast: []string{"its requests and answers pass through unchanged (upstreams[].protocol)"},
	}
	if !jsonrpc.IsObject(f.Capabilities) {
		f.Capabilities = []byte("{}")
	}
	s := &surveyor{ask: m.ask, found: f}
	s.lists()
	s.ping(mcp.MethodDiscover)
	return f, nil
}

// modernServer is asked as a modern client asks.
type modernServer struct {
	ctx    context.Context
	server *legacy.Server
	creds  legacy.Credentials
	asked  int64
}

func (m *modernServer) ask(method string, params []byte) ([]byte, error) {
	m.asked++
	id := jsonrpc.AppendQuote(nil, "inspect-"+strconv.FormatInt(m.asked, 10))
	return m.server.Inquire(m.ctx, m.creds, id, method, params)
}
