package legacy

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Inquire sends a server a request of Holdfast's own, as a modern client would,
// and returns the result. The error is a *jsonrpc.Error where the server has
// answered with one, ctx's where it was silent, or that of a Passage.
func (s *Server) Inquire(ctx context.Context, creds Credentials, id []byte, method string, params []byte) ([]byte, error) {
	text := s.appendInquiry(Text(), id, method, params)
	defer FreeText(text)
	p, err := s.Pass(ctx, &Request{ID: id, Text: text, Creds: creds, Headers: []Field{{Name: mcp.HeaderMethod, Value: method}}})
	if err != nil {
		return nil, err
	}
	defer p.Finish()
	stop := context.AfterFunc(ctx, p.Abort)
	defer stop()
	for {
		a, err := p.Next(time.Now().Add(time.Hour)) // ctx ends it
		switch {
		case err == nil && a.Result != nil:
			return bytes.Clone(a.Result), nil
		case err == nil && a.Error != nil:
			if e, ok := jsonrpc.ParseError(bytes.Clone(a.Error)); ok {
				return nil, e
			}
			return nil, ErrMalformed
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && !errors.Is(err, ErrDeadline):
			return nil, err
		}
	}
}

func (s *Server) appendInquiry(dst, id []byte, method string, params []byte) []byte {
	all := append(getText(256), `{"_meta":{"`+mcp.MetaProtocolVersion+`":"`+mcp.Modern+`","`+mcp.MetaClientInfo+`":{"name":`...)
	all = jsonrpc.AppendQuote(all, s.settings.ClientName)
	all = append(all, `,"version":`...)
	all = jsonrpc.AppendQuote(all, s.settings.ClientVersion)
	all = append(all, `},"`+mcp.MetaClientCapabilities+`":{}}`...)
	if rest := jsonrpc.AppendMembers(nil, params, nil); len(rest) > 0 {
		all = append(append(all, ','), rest...)
	}
	all = append(all, '}')
	defer putText(all)
	return jsonrpc.AppendRequest(dst, id, method, all)
}
