package adapter

import (
	"bytes"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// An input response of the modern revision becomes the answer of a legacy client:
// as the revision knows it that the session speaks (mcp.Differences).

// revision is the one that the call's server speaks, the newest where that is not
// known. mu is held.
func (c *call) revision() mcp.Revision {
	version := ""
	switch {
	case c.x != nil:
		return c.x.Session().Info().Revision
	case c.estate != nil:
		version = c.estate.position.Version
	}
	if r := mcp.ParseRevision(version); r.Legacy() {
		return r
	}
	return mcp.R20251125
}

// fits reports whether a client's answer can be given to the call's server. mu
// is held.
func (c *call) fits(in *input, r response) bool {
	if r.failed {
		_, ok := jsonrpc.ParseError(r.value)
		return ok
	}
	return c.engine.fits(in, r.value) && expressible(c.revision(), in, r.value)
}

// expressible reports whether a revision has a form for an answer.
func expressible(r mcp.Revision, in *input, value []byte) bool {
	if in.Method != mcp.MethodCreateMessage || r.Has(mcp.SamplingBlocks) && r.Has(mcp.SamplingToolUse) && r.Has(mcp.SamplingAudio) {
		return true
	}
	_, ok := onlyBlock(r, jsonrpc.Get(value, "content"))
	return ok
}

// legacyAnswer makes an answer fit the session's revision. mu is held.
func (c *call) legacyAnswer(in *input, value []byte) []byte {
	r := c.revision()
	out := append(make([]byte, 0, len(value)+2), '{')
	for member := jsonrpc.Object(value); member.Next(); {
		name, v := string(member.Name()), member.Value()
		switch {
		case name == "resultType":
			continue
		case name != "content":
		case in.Method == mcp.MethodElicit:
			if v = formContent(r, in, value, v); v == nil {
				continue
			}
		case in.Method == mcp.MethodCreateMessage && !r.Has(mcp.SamplingBlocks):
			if block, ok := onlyBlock(r, v); ok {
				v = block
			}
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, member.RawName()...), ':'), v...)
	}
	return append(out, '}')
}

// formContent is the content of an answer to an elicitation; nil where it has
// none: "only present when action is accept and mode was form".
func formContent(r mcp.Revision, in *input, answer, content []byte) []byte {
	action, _ := jsonrpc.Unquote(jsonrpc.Get(answer, "action"))
	mode, _ := jsonrpc.Unquote(jsonrpc.Get(in.Params, "mode"))
	if action != "accept" || mode == "url" || !jsonrpc.IsObject(content) {
		return nil
	}
	if r.Has(mcp.MultiSelect) {
		return content
	}
	asked := jsonrpc.Get(jsonrpc.Get(in.Params, "requestedSchema"), "properties")
	foreign := false
	out := append(make([]byte, 0, len(content)), '{')
	for member := jsonrpc.Object(content); member.Next(); {
		v := member.Value()
		if (jsonrpc.IsArray(v) || jsonrpc.IsObject(v)) && jsonrpc.Get(asked, string(member.Name())) == nil {
			foreign = true
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, member.RawName()...), ':'), v...)
	}
	if !foreign {
		return content
	}
	return append(out, '}')
}

// onlyBlock is the content of a sampling result as one block, for revisions that
// have no lists of them: the only one, or all texts as one. It reports false
// where there is no such block.
func onlyBlock(r mcp.Revision, content []byte) (block []byte, ok bool) {
	if !jsonrpc.IsArray(content) {
		return content, blockFits(r, content)
	}
	if r.Has(mcp.SamplingBlocks) {
		for list := jsonrpc.Array(content); list.Next(); {
			if !blockFits(r, list.Value()) {
				return nil, false
			}
		}
		return content, true
	}
	var texts [][]byte
	for list := jsonrpc.Array(content); list.Next(); {
		if texts = append(texts, list.Value()); !blockFits(r, list.Value()) {
			return nil, false
		}
	}
	switch len(texts) {
	case 0:
		return nil, false
	case 1:
		return texts[0], true
	}
	var whole bytes.Buffer
	for i, raw := range texts {
		kind, _ := jsonrpc.Unquote(jsonrpc.Get(raw, "type"))
		text, isText := jsonrpc.Unquote(jsonrpc.Get(raw, "text"))
		if kind != "text" || !isText {
			return nil, false
		}
		if i > 0 {
			whole.WriteByte('\n')
		}
		whole.WriteString(text)
	}
	return append(jsonrpc.AppendQuote([]byte(`{"type":"text","text":`), whole.String()), '}'), true
}

// blockFits reports whether a revision knows a block's type. One that nobody
// knows is the server's to judge.
func blockFits(r mcp.Revision, block []byte) bool {
	kind, _ := jsonrpc.Unquote(jsonrpc.Get(block, "type"))
	switch kind {
	case "audio":
		return r.Has(mcp.SamplingAudio)
	case "tool_use", "tool_result":
		return r.Has(mcp.SamplingToolUse)
	}
	return true
}
