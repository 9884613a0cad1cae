package dialect

import (
	"strconv"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// AppendOutcome appends the JSON-RPC response of a round.
//
// Hot: once per request.
func (MRTR) AppendOutcome(dst, id []byte, o *adapter.Outcome) []byte {
	dst = appendStart(dst, id)
	switch {
	case o.Error != nil:
		dst = append(dst, `,"error":`...)
		dst = append(dst, o.Error...)
	case o.Raw:
		dst = append(dst, `,"result":`...)
		dst = append(dst, o.Result...)
	case jsonrpc.IsObject(o.Result):
		dst = append(dst, `,"result":`...)
		dst = appendResult(dst, o)
	case o.Result != nil:
		dst = appendNoObject(dst)
	default:
		dst = append(dst, `,"result":`...)
		dst = appendInputRequired(dst, o)
	}
	return append(dst, '}')
}

func appendNoObject(dst []byte) []byte {
	return append(append(dst, `,"error":`...), noObject...)
}

// appendInputRequired writes an InputRequiredResult. inputRequests is there
// even when it is empty: some clients take an answer without it as final.
func appendInputRequired(dst []byte, o *adapter.Outcome) []byte {
	dst = append(dst, `{"resultType":"input_required","inputRequests":{`...)
	dst = append(appendInputs(dst, o.Inputs), '}')
	if o.State != nil {
		dst = append(dst, `,"requestState":"`...)
		dst = append(dst, o.State...)
		dst = append(dst, '"')
	}
	dst = appendMeta(dst, o, nil)
	return append(dst, '}')
}

// appendResult writes a complete result: what the revision adds first, then
// the server's own members as they are.
func appendResult(dst []byte, o *adapter.Outcome) []byte {
	cacheable := mcp.MethodTraits(o.Method).Cacheable
	m := readResult(o, cacheable)
	dst = append(dst, `{"resultType":"complete"`...)
	if cacheable {
		if !m.ttl {
			dst = append(dst, `,"ttlMs":`...)
			dst = strconv.AppendInt(dst, max(o.Cache.TTLMillis, 0), 10)
		}
		if !m.scope {
			if o.Cache.Scope == "public" {
				dst = append(dst, `,"cacheScope":"public"`...)
			} else {
				dst = append(dst, `,"cacheScope":"private"`...)
			}
		}
	}
	dst = appendMeta(dst, o, m.meta)
	if !m.rewrite {
		return appendRest(dst, o.Result)
	}
	for c := jsonrpc.Object(o.Result); c.Next(); {
		value := c.Value()
		switch string(c.Name()) {
		case "resultType", "task", "_meta":
			continue
		case "ttlMs":
			if cacheable && !m.ttl {
				continue
			}
		case "cacheScope":
			if cacheable && !m.scope {
				continue
			}
		case "tools":
			if m.tools {
				dst = append(dst, `,"tools":`...)
				dst = appendTools(dst, value)
				continue
			}
		}
		dst = append(dst, ',')
		dst = append(dst, c.RawName()...)
		dst = append(dst, ':')
		dst = append(dst, value...)
	}
	return append(dst, '}')
}

// appendRest appends the members of an object and its end, as they stand, to
// an object that already has members.
func appendRest(dst, object []byte) []byte {
	i := 0
	for i < len(object) && object[i] != '{' {
		i++
	}
	for i++; i < len(object); i++ {
		switch object[i] {
		case ' ', '\t', '\r', '\n':
			continue
		case '}':
			return append(dst, '}')
		}
		dst = append(dst, ',')
		return append(dst, object[i:]...)
	}
	return append(dst, '}')
}

// resultMembers says what of a result cannot stay as it is.
type resultMembers struct {
	meta       []byte
	ttl, scope bool // the server's own caching hints stand
	tools      bool // a tool has a member to leave out
	rewrite    bool
}

func readResult(o *adapter.Outcome, cacheable bool) resultMembers {
	var m resultMembers
	for c := jsonrpc.Object(o.Result); c.Next(); {
		switch string(c.Name()) {
		case "resultType", "task":
			m.rewrite = true
		case "_meta":
			m.meta, m.rewrite = c.Value(), true
		case "ttlMs":
			if cacheable {
				// Some SDKs say 0 where nobody has thought of it; then the operator's word
				// stands.
				m.ttl = integer(c.Value()) && c.Value()[0] != '-' && (string(c.Value()) != "0" || o.Cache.TTLMillis == 0)
				m.rewrite = m.rewrite || !m.ttl
			}
		case "cacheScope":
			if cacheable {
				// Public needs the operator's word too: a legacy server's lists differ by
				// session, and some SDKs say public where nobody has thought of it.
				scope := string(c.Value())
				m.scope = scope == `"private"` || scope == `"public"` && o.Cache.Scope == "public"
				m.rewrite = m.rewrite || !m.scope
			}
		case "tools":
			if o.Method == mcp.MethodToolsList && anyExecution(c.Value()) {
				m.tools, m.rewrite = true, true
			}
		}
	}
	return m
}

// appendMeta appends the _meta member: what the server put there, its
// serverInfo, and the subscription that a result belongs to; none that is empty.
func appendMeta(dst []byte, o *adapter.Outcome, own []byte) []byte {
	ownInfo := jsonrpc.IsObject(own) && jsonrpc.Get(own, mcp.MetaServerInfo) != nil
	if !jsonrpc.IsObject(own) && o.ServerInfo == nil && o.Subscription == nil {
		return dst
	}
	without := len(dst)
	dst = append(dst, `,"_meta":{`...)
	start := len(dst)
	if o.ServerInfo != nil && !ownInfo {
		dst = append(dst, `"`+mcp.MetaServerInfo+`":`...)
		dst = append(dst, o.ServerInfo...)
	}
	if o.Subscription != nil {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(dst, `"`+mcp.MetaSubscriptionID+`":`...)
		dst = append(dst, o.Subscription...)
	}
	for c := jsonrpc.Object(own); c.Next(); {
		switch name := string(c.Name()); {
		case name == mcp.MetaRelatedTask, o.Subscription != nil && name == mcp.MetaSubscriptionID:
			continue
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(dst, c.RawName()...)
		dst = append(dst, ':')
		dst = append(dst, c.Value()...)
	}
	if len(dst) == start {
		return dst[:without]
	}
	return append(dst, '}')
}

// anyExecution reports whether a tool of a list has the legacy execution
// member (2025-11-25, tasks).
func anyExecution(tools []byte) bool {
	for c := jsonrpc.Array(tools); c.Next(); {
		if jsonrpc.Get(c.Value(), "execution") != nil {
			return true
		}
	}
	return false
}

func appendTools(dst, tools []byte) []byte {
	dst = append(dst, '[')
	first := true
	for c := jsonrpc.Array(tools); c.Next(); {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if jsonrpc.Get(c.Value(), "execution") == nil {
			dst = append(dst, c.Value()...)
			continue
		}
		dst = append(dst, '{')
		dst = jsonrpc.AppendMembers(dst, c.Value(), func(name []byte) bool { return string(name) == "execution" })
		dst = append(dst, '}')
	}
	return append(dst, ']')
}
