package main

import (
	"context"
	"errors"
	"strconv"
	"time"

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
	all := append([]byte(`{"_meta":{"`+mcp.MetaProtocolVersion+`":"`+mcp.Modern+`","`+mcp.MetaClientInfo+`":{"name":"holdfast-inspect","version":`), jsonrpc.AppendQuote(nil, buildVersion())...)
	all = append(all, `},"`+mcp.MetaClientCapabilities+`":{}}`...)
	if rest := jsonrpc.AppendMembers(nil, params, nil); len(rest) > 0 {
		all = append(append(all, ','), rest...)
	}
	p, err := m.server.Pass(m.ctx, &legacy.Request{
		ID: id, Text: jsonrpc.AppendRequest(nil, id, method, append(all, '}')), Creds: m.creds,
		Headers: []legacy.Field{{Name: mcp.HeaderMethod, Value: method}},
	})
	if err != nil {
		return nil, err
	}
	defer p.Finish()
	stop := context.AfterFunc(m.ctx, p.Abort)
	defer stop()
	for {
		a, err := p.Next(time.Now().Add(time.Hour)) // ctx ends it
		switch {
		case m.ctx.Err() != nil:
			return nil, m.ctx.Err()
		case errors.Is(err, legacy.ErrDeadline):
		case err != nil:
			return nil, err
		case a.Error != nil:
			if e, ok := jsonrpc.ParseError(append([]byte(nil), a.Error...)); ok {
				return nil, e
			}
			return nil, legacy.ErrMalformed
		case a.Result != nil:
			return append([]byte(nil), a.Result...), nil
		}
	}
}
