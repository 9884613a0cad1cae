package modern

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ServerInfo is what a server calls itself: for display only (spec,
// basic/index, "_meta").
type ServerInfo struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version"`
}

// Discovery is the answer to server/discover.
type Discovery struct {
	Versions     []string       `json:"supportedVersions"`
	Capabilities jsontext.Value `json:"capabilities"`
	Instructions string         `json:"instructions"`
	Server       ServerInfo     `json:"-"`
	Raw          jsontext.Value `json:"-"`
}

// Result is the final result of a call.
type Result struct {
	Content    []jsontext.Value `json:"content"`
	Structured jsontext.Value   `json:"structuredContent"`
	IsError    bool             `json:"isError"`
	Server     ServerInfo       `json:"-"`
	Raw        jsontext.Value   `json:"-"`
}

// Discover asks the server who it is and what it can do.
func (c *Client) Discover(ctx context.Context) (Discovery, error) {
	raw, err := c.complete(ctx, request{method: methodDiscover})
	if err != nil {
		return Discovery{}, err
	}
	d := Discovery{Raw: raw, Server: serverOf(raw)}
	if err := json.Unmarshal(raw, &d, lenient); err != nil {
		return Discovery{}, fmt.Errorf("%w: %s: %w", ErrBroken, methodDiscover, err)
	}
	return d, nil
}

// complete sends a request that must not be answered with input_required.
func (c *Client) complete(ctx context.Context, r request) (jsontext.Value, error) {
	raw, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	kind, err := resultType(raw)
	if err != nil {
		return nil, err
	}
	if kind != typeComplete {
		return nil, fmt.Errorf("%w: %s answered with %s", ErrBroken, r.method, kind)
	}
	return raw, nil
}

// resultType reads a result's type; an absent one is complete, an unknown one
// invalid (spec, basic/index, "ResultType").
func resultType(result jsontext.Value) (string, error) {
	value := Get(result, "resultType")
	if value == nil {
		return typeComplete, nil
	}
	switch kind, _ := Text(value); kind {
	case typeComplete, typeInputRequired:
		return kind, nil
	}
	return "", fmt.Errorf("%w: unknown resultType %s", ErrBroken, value)
}

// serverOf reads who answered; a server may leave it out.
func serverOf(result jsontext.Value) ServerInfo {
	var info ServerInfo
	value := Get(Get(result, "_meta"), metaServerInfo)
	if len(value) == 0 || json.Unmarshal(value, &info, lenient) != nil {
		return ServerInfo{}
	}
	return info
}
