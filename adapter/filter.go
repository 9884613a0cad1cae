package adapter

import (
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// filter is what a client wants to be told of: spec 2026-07-28,
// basic/patterns/subscriptions, "Notification Filter".
type filter struct {
	tools, prompts, resources bool
	uris                      []string
	handles                   []string // of lasting calls, as tasks
}

func parseFilter(params []byte, maxURIs int) (filter, error) {
	raw := jsonrpc.Get(params, "notifications")
	if !jsonrpc.IsObject(raw) {
		return filter{}, refuse(ReasonInvalidParams, "params.notifications must be an object")
	}
	var f filter
	object := jsonrpc.Object(raw)
	for object.Next() {
		value := object.Value()
		var flag *bool
		switch name := string(object.Name()); name {
		case "toolsListChanged":
			flag = &f.tools
		case "promptsListChanged":
			flag = &f.prompts
		case "resourcesListChanged":
			flag = &f.resources
		case "resourceSubscriptions", "taskIds":
			texts, err := parseTexts(name, value, maxURIs)
			if err != nil {
				return filter{}, err
			}
			if name == "taskIds" {
				f.handles = texts
			} else {
				f.uris = texts
			}
			continue
		default:
			continue
		}
		switch string(value) {
		case "true":
			*flag = true
		case "false":
		default:
			return filter{}, refuse(ReasonInvalidParams, "%s must be a boolean", object.Name())
		}
	}
	return f, nil
}

func parseTexts(name string, raw []byte, most int) (texts []string, err error) {
	if !jsonrpc.IsArray(raw) {
		return nil, refuse(ReasonInvalidParams, "%s must be a list of strings", name)
	}
	for list := jsonrpc.Array(raw); list.Next(); {
		text, ok := jsonrpc.Unquote(list.Value())
		if !ok {
			return nil, refuse(ReasonInvalidParams, "%s must be a list of strings", name)
		}
		if texts = append(texts, text); len(texts) > most {
			return nil, refuse(ReasonInvalidParams, "more than %d %s (listeners.max_uris)", most, name)
		}
	}
	return texts, nil
}

// honoured returns the part of the filter that the server can serve.
func (f filter) honoured(info *legacy.Info) filter {
	f.tools = f.tools && info.ToolsList
	f.prompts = f.prompts && info.PromptsList
	f.resources = f.resources && info.ResList
	if !info.Subscribe {
		f.uris = nil
	}
	return f
}

func (f filter) append(dst []byte) []byte {
	dst = append(dst, '{')
	start := len(dst)
	flag := func(name string, on bool) {
		if on {
			if len(dst) > start {
				dst = append(dst, ',')
			}
			dst = append(append(append(dst, '"'), name...), `":true`...)
		}
	}
	flag("toolsListChanged", f.tools)
	flag("promptsListChanged", f.prompts)
	flag("resourcesListChanged", f.resources)
	texts := func(name string, list []string) {
		if len(list) == 0 {
			return
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), name...), `":[`...)
		for i, text := range list {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = jsonrpc.AppendQuote(dst, text)
		}
		dst = append(dst, ']')
	}
	texts("resourceSubscriptions", f.uris)
	texts("taskIds", f.handles)
	return append(dst, '}')
}

// admits reports whether a notification is one that the client wants.
func (f filter) admits(m *jsonrpc.Message) bool {
	switch m.Method {
	case mcp.NotifyToolsChanged:
		return f.tools
	case mcp.NotifyPromptsChanged:
		return f.prompts
	case mcp.NotifyResourcesChanged:
		return f.resources
	case mcp.NotifyResourceUpdated:
		uri, _ := jsonrpc.Unquote(jsonrpc.Get(m.Params, "uri"))
		for _, u := range f.uris {
			if u == uri {
				return true
			}
		}
	}
	return false
}
