package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// decoder puts one layer of settings over a Config. A value in a layer is nil
// (says nothing), text, []any or map[string]any.
type decoder struct {
	problems []Problem
	set      map[string]bool // keys that the layer gave a value
}

// over decodes a value into the place of its setting.
func (d *decoder) over(s *setting, v reflect.Value, in any, key string) {
	if in == nil {
		return
	}
	switch s.kind {
	case kindSection:
		d.section(s, v, in, key)
	case kindSections:
		d.sections(s, v, in, key)
	case kindTexts:
		d.texts(s, v, in, key)
	case kindPairs:
		d.pairs(s, v, in, key)
	case kindEnv:
		d.env(s, v, in, key)
	default:
		text, ok := in.(string)
		if !ok || !s.parse(v, text) {
			d.refuse(s, key, in)
			return
		}
		d.set[key] = true
	}
}

func (d *decoder) section(s *setting, v reflect.Value, in any, key string) {
	section, ok := in.(map[string]any)
	if !ok {
		d.refuse(s, key, in)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(section)) {
		if p := s.part(name); p != nil {
			d.over(p, v.Field(p.field), section[name], join(key, name))
		} else {
			d.unknown(s, key, name, section[name])
		}
	}
}

// sections replaces a list: the lists of two layers do not mix.
func (d *decoder) sections(s *setting, v reflect.Value, in any, key string) {
	list, ok := in.([]any)
	if !ok {
		d.refuse(s, key, in)
		return
	}
	d.set[key] = true
	v.SetZero()
	for i, element := range list {
		at := fmt.Sprintf("%s[%d]", key, i)
		e := reflect.New(s.element.Type()).Elem()
		e.Set(s.element)
		if element == nil {
			d.refuse(s, at, element)
		} else {
			d.section(s, e, element, at)
		}
		v.Set(reflect.Append(v, e))
	}
}

func (d *decoder) texts(s *setting, v reflect.Value, in any, key string) {
	list, ok := in.([]any)
	if !ok {
		d.refuse(s, key, in)
		return
	}
	d.set[key] = true
	v.SetZero()
	for i, element := range list {
		text, ok := element.(string)
		if !ok {
			d.refuse(s, fmt.Sprintf("%s[%d]", key, i), element)
			continue
		}
		v.Set(reflect.Append(v, reflect.ValueOf(text)))
	}
}

func (d *decoder) pairs(s *setting, v reflect.Value, in any, key string) {
	pairs, ok := in.(map[string]any)
	if !ok {
		d.refuse(s, key, in)
		return
	}
	d.set[key] = true
	v.SetZero()
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		text, ok := pairs[name].(string)
		if !ok {
			d.refuse(s, join(key, name), pairs[name])
			continue
		}
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		v.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(text))
	}
}

// refuse notes a value that is not written as its setting is.
func (d *decoder) refuse(s *setting, key string, in any) {
	want := s.written()
	switch element := strings.HasSuffix(key, "]"); {
	case element && s.kind == kindSections:
		want = "want a section"
	case element, in == nil:
		want = "want one value"
	}
	if s.bounded || s.kind == kindSwitch || s.kind == kindSection {
		want += "; allowed: " + s.allowed()
	}
	value := shownInput(in)
	if s.guarded() {
		value = ""
	}
	d.problems = append(d.problems, Problem{Key: key, Value: value, Want: want})
}

// unknown notes a key that does not exist.
func (d *decoder) unknown(s *setting, section, name string, in any) {
	where := "at the top"
	if section != "" {
		where = "in " + section
	}
	want := fmt.Sprintf("unknown key; %s there may be %s", where, s.names())
	if s.key == "" && strings.Contains(name, ".") {
		want = "unknown key; sections are nested, not written with dots"
	}
	value := ""
	if !s.guards(name) {
		value = shownInput(in)
	}
	d.problems = append(d.problems, Problem{Key: join(section, shownName(name)), Value: value, Want: want})
}

// guarded reports whether the setting is a secret or holds one.
func (s *setting) guarded() bool {
	return s.secret || slices.ContainsFunc(s.parts, (*setting).guarded)
}

// guards reports whether an unknown key of the section may be a misspelt
// secret, whose value an error must not show.
func (s *setting) guards(name string) bool {
	if s.key != "" && s.guarded() {
		return true
	}
	name = strings.ToLower(name)
	for _, word := range []string{"key", "header", "secret", "token", "password", "auth", "credential", "state", "upstream", "url"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// shownName quotes a key that would be hard to read as it is.
func shownName(name string) string {
	if name != "" && token.MatchString(name) && len(name) <= 100 {
		return name
	}
	return quoted(name)
}

// shownInput shows a text, and only says what anything else is.
func shownInput(in any) string {
	switch in := in.(type) {
	case nil:
		return "nothing"
	case string:
		return quoted(in)
	case []any:
		return "a list"
	default:
		return "a section"
	}
}
