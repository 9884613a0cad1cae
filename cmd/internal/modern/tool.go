package modern

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Tool is a tool as the server lists it.
type Tool struct {
	Name        string         `json:"name"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	InputSchema jsontext.Value `json:"inputSchema"`

	mirrors []mirror
}

// RefusedTool is a tool that must not be used, and why.
type RefusedTool struct {
	Name   string
	Reason error
}

// ToolList is what tools/list offers, over all of its pages.
type ToolList struct {
	Tools   []Tool
	Refused []RefusedTool
	Raw     []jsontext.Value // every tool as it came
	Server  ServerInfo
}

// Find returns the named tool; false means that it is not listed. A refused
// one is an error.
func (l ToolList) Find(name string) (Tool, bool, error) {
	for _, tool := range l.Tools {
		if tool.Name == name {
			return tool, true, nil
		}
	}
	for _, refused := range l.Refused {
		if refused.Name == name {
			return Tool{}, false, fmt.Errorf("tool %q cannot be used: %w", name, refused.Reason)
		}
	}
	return Tool{Name: name}, false, nil
}

// ListTools lists the server's tools. Those whose x-mcp-header annotations are
// invalid are left out, as the specification wants it, and named in Refused.
func (c *Client) ListTools(ctx context.Context) (ToolList, error) {
	var list ToolList
	var cursor jsontext.Value
	size := 0
	for range maxPages {
		r := request{method: methodToolsList}
		if cursor != nil {
			r.params = []Member{{"cursor", cursor}}
		}
		raw, err := c.complete(ctx, r)
		if err != nil {
			return ToolList{}, err
		}
		if size += len(raw); size > maxListBytes {
			return ToolList{}, fmt.Errorf("%s: %w", methodToolsList, ErrTooLarge)
		}
		if err := list.add(raw); err != nil {
			return ToolList{}, err
		}
		// An empty cursor is a cursor like any other (spec,
		// server/utilities/pagination); only its absence is the end.
		if cursor = Get(raw, "nextCursor"); cursor.Kind() != '"' {
			return list, nil
		}
	}
	return ToolList{}, fmt.Errorf("%w: %s has more than %d pages", ErrBroken, methodToolsList, maxPages)
}

// add takes in a page.
func (l *ToolList) add(page jsontext.Value) error {
	tools, err := Elements(Get(page, "tools"))
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrBroken, methodToolsList, err)
	}
	l.Server = serverOf(page)
	for _, raw := range tools {
		var tool Tool
		if err := json.Unmarshal(raw, &tool, lenient); err != nil {
			l.Refused = append(l.Refused, RefusedTool{Name: tool.Name, Reason: fmt.Errorf("%w: %w", ErrBroken, err)})
			continue
		}
		if tool.mirrors, err = mirrors(tool.InputSchema); err != nil {
			l.Refused = append(l.Refused, RefusedTool{Name: tool.Name, Reason: err})
			continue
		}
		l.Tools, l.Raw = append(l.Tools, tool), append(l.Raw, raw)
	}
	return nil
}
