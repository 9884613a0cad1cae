package adapter

import (
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// appendRequest appends the request as the legacy server gets it: with our id
// and progress token, and without what only the modern revision has. All other
// bytes of params are the client's.
//
// Hot: once per call.
func (c *call) appendRequest(dst []byte, req *Request) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = c.up.Server.AppendID(dst, c.msgID)
	dst = append(dst, `,"method":`...)
	dst = jsonrpc.AppendQuote(dst, req.Method)
	dst = append(dst, `,"params":{`...)
	start := len(dst)
	skip := isModernParam
	if req.NullArgs {
		skip = isModernParamOrArguments
	}
	dst = jsonrpc.AppendMembers(dst, req.Params, skip)
	mark := len(dst)
	if mark > start {
		dst = append(dst, ',')
	}
	dst = append(dst, `"_meta":{`...)
	meta := len(dst)
	dst = jsonrpc.AppendMembers(dst, req.Meta, isModernMeta)
	if req.ProgressToken != nil {
		if len(dst) > meta {
			dst = append(dst, ',')
		}
		dst = append(dst, `"progressToken":`...)
		dst = c.up.Server.AppendID(dst, c.msgID)
	}
	if len(dst) == meta {
		dst = dst[:mark]
	} else {
		dst = append(dst, '}')
	}
	return append(dst, "}}"...)
}

// isModernParam: task is a legacy parameter whose answer a modern client
// cannot read.
func isModernParam(name []byte) bool {
	switch string(name) {
	case "_meta", "inputResponses", "requestState", "task":
		return true
	}
	return false
}

func isModernParamOrArguments(name []byte) bool {
	return string(name) == "arguments" || isModernParam(name)
}

func isModernMeta(name []byte) bool {
	switch string(name) {
	case mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel, mcp.MetaProgressToken:
		return true
	}
	return false
}

// credentials are the header fields that go upstream with this request only.
func credentials(req *Request) legacy.Credentials {
	n := len(req.Credentials.Forward)
	if req.Credentials.Authorization != "" {
		n++
	}
	if n == 0 {
		return nil
	}
	creds := make(legacy.Credentials, 0, n)
	if a := req.Credentials.Authorization; a != "" {
		creds = append(creds, legacy.Field{Name: "Authorization", Value: a})
	}
	traced := 0
	for _, f := range req.Credentials.Forward {
		if legacy.IsTrace(f.Name) {
			traced++
		} else {
			creds = append(creds, legacy.Field(f))
		}
	}
	if traced == 0 {
		return creds
	}
	for _, f := range req.Credentials.Forward { // last: legacy.Credentials.Lasting
		if legacy.IsTrace(f.Name) {
			creds = append(creds, legacy.Field(f))
		}
	}
	return creds
}

// forRevision makes a request's text fit the revision that the session speaks.
func (c *call) forRevision(r mcp.Revision, text []byte) []byte {
	if c.method != mcp.MethodComplete || r.Has(mcp.CompletionContext) {
		return text
	}
	params := jsonrpc.Get(text, "params")
	if jsonrpc.Get(params, "context") == nil {
		return text
	}
	out := jsonrpc.AppendMembers(append(legacy.Text(), '{'), text, func(name []byte) bool { return string(name) == "params" })
	out = append(out, `,"params":{`...)
	out = jsonrpc.AppendMembers(out, params, func(name []byte) bool { return string(name) == "context" })
	legacy.FreeText(text)
	return append(out, "}}"...)
}
