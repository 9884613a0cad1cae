package main

import "github.com/holdfast-mcp/holdfast/test/real/peer"

// offers says where a list keeps what it lists: one row of the table each.
var offers = map[string]struct{ kind, list, name string }{
	"tools/list":               {"tool", "tools", "name"},
	"prompts/list":             {"prompt", "prompts", "name"},
	"resources/list":           {"resource", "resources", "uri"},
	"resources/templates/list": {"template", "resourceTemplates", "uriTemplate"},
}

// judge makes the table of what was played.
func judge(all []played) *table {
	t := newTable()
	for _, p := range all {
		if method := p.step.name; p.pair.name == mainPair && p.step.kind == "server" {
			t.offered(method, p)
		}
	}
	for _, p := range all {
		switch {
		case p.pair.directly:
			t.further(p)
		default:
			t.used(p)
		}
	}
	t.complete()
	return t
}

// offered makes a row of everything that a list has, and compares its entry.
func (t *table) offered(method string, p played) {
	direct, modern := entries(p.direct, fromLegacy), entries(p.modern, func(o peer.Outcome) peer.Outcome { return o })
	for name, in := range direct.byName {
		out, ok := modern.byName[name]
		r := t.row(name)
		if r.offered = true; !ok {
			r.differs("not listed through Holdfast")
		} else if difference := diff("listed as ", in, out); difference != "" {
			r.differs(difference)
		}
	}
	for name := range modern.byName {
		if _, ok := direct.byName[name]; !ok {
			t.row(name).differs("listed through Holdfast only")
		}
	}
	_ = method
}
