package config

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"
)

// kind is what a setting holds.
type kind uint8

const (
	kindSection  kind = iota // further settings
	kindSections             // a list of sections
	kindText
	kindTexts
	kindPairs // names and texts
	kindEnv   // variables for a process
	kindSwitch
	kindNumber
	kindDuration
	kindSize
)

// setting is what the tags of one field of Config say: the one description from
// which settings are read, checked, printed and explained.
type setting struct {
	key      string // such as calls.park_ttl or upstreams[].url
	name     string // its last part
	kind     kind
	field    int // index in its section's struct
	doc      string
	fallback string // the default, as it is written
	secret   bool

	least, most int64    // of a number, duration or size; set when bounded
	bounded     bool     //
	words       []string // of a text, when not empty
	form        *form    // of a text, or of each of several; or nil

	parts   []*setting    // of a section, or of each section of a list
	element reflect.Value // of a list of sections: the default of one
}

// schema describes Config. Its tags are part of the program, so a wrong one
// panics; TestSchema would see it.
var schema = sync.OnceValue(func() *setting {
	root := &setting{kind: kindSection}
	root.describe(reflect.ValueOf(*Defaults()))
	return root
})

// describe fills parts from a struct that holds the defaults.
func (s *setting) describe(defaults reflect.Value) {
	for i := range defaults.NumField() {
		field, tag := defaults.Type().Field(i), defaults.Type().Field(i).Tag
		p := &setting{
			name:   tag.Get("koanf"),
			field:  i,
			doc:    tag.Get("doc"),
			secret: tag.Get("secret") == "true",
			words:  strings.Fields(tag.Get("oneof")),
		}
		p.key = join(s.key, p.name)
		value := defaults.Field(i)
		switch v := value.Interface().(type) {
		case string:
			p.kind, p.fallback = kindText, v
		case []string:
			p.kind, p.fallback = kindTexts, strings.Join(v, ",")
		case map[string]string:
			p.kind = kindPairs
		case Env:
			p.kind = kindEnv
		case bool:
			p.kind, p.fallback = kindSwitch, scalarText(value)
		case int:
			p.kind, p.fallback = kindNumber, scalarText(value)
		case time.Duration:
			p.kind, p.fallback = kindDuration, scalarText(value)
		case Size:
			p.kind, p.fallback = kindSize, scalarText(value)
		case []Upstream:
			p.kind, p.element = kindSections, reflect.ValueOf(DefaultUpstream())
			p.key += "[]"
			p.describe(p.element)
		default:
			if value.Kind() != reflect.Struct {
				panic(fmt.Sprintf("config: %s has a type that no setting has", field.Name))
			}
			p.kind = kindSection
			p.describe(value)
		}
		p.bound(field.Type, tag)
		p.shape(tag)
		s.parts = append(s.parts, p)
	}
}

// bound reads the range.
func (s *setting) bound(t reflect.Type, tag reflect.StructTag) {
	low, high := tag.Get("min"), tag.Get("max")
	if low == "" && high == "" {
		return
	}
	for _, b := range []struct {
		text  string
		bound *int64
	}{{low, &s.least}, {high, &s.most}} {
		v := reflect.New(t).Elem()
		if !s.parse(v, b.text) {
			panic(fmt.Sprintf("config: %s: %q is no bound", s.key, b.text))
		}
		*b.bound = v.Int()
	}
	s.bounded = true
}

func (s *setting) shape(tag reflect.StructTag) {
	if name := tag.Get("form"); name != "" {
		f, ok := forms[name]
		if !ok {
			panic(fmt.Sprintf("config: %s: there is no form %q", s.key, name))
		}
		s.form = &f
	}
}

// part finds a part by its name, or returns nil.
func (s *setting) part(name string) *setting {
	for _, p := range s.parts {
		if p.name == name {
			return p
		}
	}
	return nil
}

// leaves calls yield for every setting that holds a value, in order.
func (s *setting) leaves(yield func(*setting)) {
	for _, p := range s.parts {
		if p.kind == kindSection || p.kind == kindSections {
			p.leaves(yield)
		} else {
			yield(p)
		}
	}
}

// single reports whether the setting has one place in Config, so that a
// variable can hold it: those of list elements have many.
func (s *setting) single() bool { return !strings.Contains(s.key, "[]") }

// allowed says in words what the value may be.
func (s *setting) allowed() string {
	switch {
	case len(s.words) > 0:
		return strings.Join(s.words, ", ")
	case s.form != nil:
		return s.form.want
	case s.bounded:
		low, high := reflect.New(boundTypes[s.kind]).Elem(), reflect.New(boundTypes[s.kind]).Elem()
		low.SetInt(s.least)
		high.SetInt(s.most)
		return scalarText(low) + " to " + scalarText(high)
	case s.kind == kindSwitch:
		return "true, false"
	case s.kind == kindText:
		return "text"
	default:
		return "names of its parts: " + s.names()
	}
}

var boundTypes = map[kind]reflect.Type{
	kindNumber:   reflect.TypeFor[int](),
	kindDuration: reflect.TypeFor[time.Duration](),
	kindSize:     reflect.TypeFor[Size](),
}

// names lists the parts.
func (s *setting) names() string {
	names := make([]string, 0, len(s.parts))
	for _, p := range s.parts {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

func join(section, name string) string {
	if section == "" {
		return name
	}
	return section + "." + name
}
