package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

// compared is what came of comparing one step.
type compared struct {
	difference string // "" means the same
	masked     []mask // those that hid something
	failure    string // the error that the step ended with, "" without one
}

// compare compares what both sides got for a step.
func compare(p played) compared {
	switch {
	case p.direct.err != nil && p.modern.err != nil:
		return compared{difference: fmt.Sprintf("fails on both sides: directly: %v; through Holdfast: %v", p.direct.err, p.modern.err)}
	case p.direct.err != nil:
		return compared{difference: fmt.Sprintf("fails directly: %v", p.direct.err)}
	case p.modern.err != nil:
		return compared{difference: fmt.Sprintf("fails through Holdfast: %v", p.modern.err)}
	case len(p.direct.outcomes) != len(p.modern.outcomes):
		return compared{difference: fmt.Sprintf("directly %d outcomes, through Holdfast %d", len(p.direct.outcomes), len(p.modern.outcomes))}
	}
	var c compared
	for i := range p.direct.outcomes {
		direct := fromLegacy(p.direct.outcomes[i])
		modern, err := fromModern(p.modern.outcomes[i])
		if err != nil {
			c.difference = err.Error()
			return c
		}
		questions := len(modern.Asked)
		for _, m := range append([]mask{rootsTiming}, p.step.masks...) {
			here, there := m.apply(&direct), m.apply(&modern)
			if (here || there) && !slices.ContainsFunc(c.masked, func(other mask) bool { return other.name == m.name }) {
				c.masked = append(c.masked, m)
			}
		}
		if c.difference = diff("", tree(direct), tree(modern)); c.difference != "" {
			if questions > 0 {
				c.difference += fmt.Sprintf(" (after %d questions through Holdfast)", questions)
			}
			return c
		}
		c.failure = failure(modern)
	}
	return c
}

// failure is the text of an error: the protocol's or a tool's.
func failure(o peer.Outcome) string {
	if o.Error != nil {
		members, _ := o.Error.(map[string]any)
		return fmt.Sprintf("error %v %v", members["code"], members["message"])
	}
	if result, _ := o.Result.(map[string]any); result["isError"] == true {
		return fmt.Sprintf("isError %s", short(result["content"]))
	}
	return ""
}

// tree is an outcome as one JSON value, so that one function compares it.
func tree(o peer.Outcome) map[string]any {
	asked := make([]any, len(o.Asked))
	for i, q := range o.Asked {
		asked[i] = map[string]any{"method": q.Method, "params": q.Params}
	}
	updates := make([]any, len(o.Updates))
	for i, u := range o.Updates {
		updates[i] = map[string]any{"method": u.Method, "params": u.Params}
	}
	return map[string]any{
		"method": o.Method, "result": o.Result, "error": o.Error,
		"progress": list(o.Progress), "log": list(o.Log), "asked": asked, "updates": updates,
	}
}

// list makes an absent list an empty one.
func list(values []any) []any { return append([]any{}, values...) }

// diff says how two JSON values differ first, or "".
func diff(path string, direct, modern any) string {
	switch d := direct.(type) {
	case map[string]any:
		m, ok := modern.(map[string]any)
		if !ok {
			break
		}
		names := slices.Sorted(maps.Keys(d))
		for name := range m {
			if _, ok := d[name]; !ok {
				names = append(names, name)
			}
		}
		for _, name := range names {
			below := path + "." + name
			in, has := d[name]
			out, kept := m[name]
			switch {
			case !kept:
				return fmt.Sprintf("%s: directly %s, through Holdfast nothing", below, short(in))
			case !has:
				return fmt.Sprintf("%s: directly nothing, through Holdfast %s", below, short(out))
			}
			if difference := diff(below, in, out); difference != "" {
				return difference
			}
		}
		return ""
	case []any:
		m, ok := modern.([]any)
		if !ok {
			break
		}
		if len(d) != len(m) {
			return fmt.Sprintf("%s: directly %d elements %s, through Holdfast %d %s", path, len(d), short(direct), len(m), short(modern))
		}
		for i := range d {
			if difference := diff(fmt.Sprintf("%s[%d]", path, i), d[i], m[i]); difference != "" {
				return difference
			}
		}
		return ""
	default:
		if direct == modern { // texts, numbers by their text, booleans, null
			return ""
		}
	}
	return fmt.Sprintf("%s: directly %s, through Holdfast %s", path, short(direct), short(modern))
}

// short is the beginning of a value's JSON.
func short(value any) string {
	const most = 160
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	if runes := []rune(string(text)); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(text)
}
