package main

import (
	"fmt"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

// offers says where each list keeps what: every entry gets a row of the table.
var offers = map[string]struct{ kind, list, name string }{
	"tools/list":               {"tool", "tools", "name"},
	"prompts/list":             {"prompt", "prompts", "name"},
	"resources/list":           {"resource", "resources", "uri"},
	"resources/templates/list": {"template", "resourceTemplates", "uriTemplate"},
}

// judge makes the table of what was played.
func judge(all []played) *table {
	t := &table{}
	for _, p := range all {
		if p.pair.name == mainPair {
			t.offered(p)
		}
	}
	for _, p := range all {
		if !p.pair.directly {
			t.used(p)
		}
	}
	for _, p := range all {
		if p.pair.directly {
			t.further(p)
		}
	}
	for _, r := range t.rows {
		if r.uses == 0 {
			r.differs("the server offers it, and the plan does not use it")
		}
	}
	return t
}

// entry is one entry of a list.
type entry struct {
	subject subject
	value   any
}

// entries takes a list apart; nil where the step was no list.
func entries(method string, outcomes []peer.Outcome) []entry {
	offer, ok := offers[method]
	if !ok || len(outcomes) != 1 {
		return nil
	}
	result, _ := outcomes[0].Result.(map[string]any)
	list, _ := result[offer.list].([]any)
	var found []entry
	for _, value := range list {
		members, _ := value.(map[string]any)
		name, _ := members[offer.name].(string)
		found = append(found, entry{subject{offer.kind, name}, value})
	}
	return found
}

// offered makes a row of everything that both sides list, and compares how.
func (t *table) offered(p played) {
	if p.step.kind != "server" {
		return
	}
	direct := p.direct.outcomes
	if len(direct) == 1 {
		direct = []peer.Outcome{fromLegacy(direct[0])}
	}
	through := map[subject]any{}
	for _, e := range entries(p.step.name, p.modern.outcomes) {
		through[e.subject] = e.value
	}
	for _, e := range entries(p.step.name, direct) {
		r := t.row(e.subject)
		if value, ok := through[e.subject]; !ok {
			r.differs("not listed through Holdfast")
		} else if difference := diff("listed", e.value, value); difference != "" {
			r.differs(difference)
		}
		delete(through, e.subject)
	}
	for subject := range through {
		t.row(subject).differs("listed through Holdfast only")
	}
}

// used adds a step to the row of its subject.
func (t *table) used(p played) {
	r := t.row(p.step.subject)
	r.uses++
	c := compare(p)
	for _, m := range c.masked {
		r.masked(m)
	}
	if c.difference != "" {
		if p.step.what != "" {
			c.difference = p.step.what + ": " + c.difference
		}
		r.differs(fmt.Sprintf("%s (client %s)", c.difference, p.pair.name))
		return
	}
	if c.failure != "" {
		r.failures++
	}
	if p.step.uncovered == "" {
		r.covered = true
		return
	}
	if c.failure == "" {
		r.differs("a call without a task ends without an error")
	}
	r.uncovered = fmt.Sprintf("%s; a call without ends the same on both sides: %s", p.step.uncovered, c.failure)
}

// further looks at what the server offers only to clients of another kind:
// the plan has to know it, if only to say why it is not covered.
func (t *table) further(p played) {
	for _, e := range entries(p.step.name, p.direct.outcomes) {
		if t.find(e.subject) == nil {
			t.row(e.subject).differs("offered to a client with legacy tasks only, and the plan does not know it")
		}
	}
}
