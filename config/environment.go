package config

import (
	"regexp"
	"strings"
)

const (
	envPrefix   = "HOLDFAST_"
	envFile     = "HOLDFAST_CONFIG"
	envUpstream = "HOLDFAST_UPSTREAM"
)

// variable is the setting's environment variable: __ separates a section from
// what is in it. It is empty for what no single variable can hold.
func (s *setting) variable() string {
	if !s.single() {
		return ""
	}
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.key, ".", "__"))
}

// serviceLink matches the variables that Kubernetes and Docker set for a
// service called holdfast or holdfast-something. They are not ours.
var serviceLink = regexp.MustCompile(`^HOLDFAST(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// environment translates variables to settings for koanf's provider.
type environment struct {
	settings map[string]*setting // by variable
	layer    *layer
}

func newEnvironment() *environment {
	e := &environment{settings: map[string]*setting{}, layer: newLayer("")}
	schema().leaves(func(s *setting) {
		if name := s.variable(); name != "" {
			e.settings[name] = s
		}
	})
	return e
}

// key says which setting a variable is for, and its value; "" when for none.
func (e *environment) key(name, value string) (string, any) {
	switch s := e.settings[name]; {
	case s != nil:
		e.layer.labels[s.key] = name
		return s.key, s.input(value)
	case name == envUpstream:
		e.layer.labels["upstreams"] = name
		return "upstreams", oneUpstream(value)
	case name != envFile && !serviceLink.MatchString(name):
		// The value stays out of the error: secrets live in the environment.
		e.layer.problems = append(e.layer.problems, Problem{Key: name, Want: "unknown variable" + e.likely(name)})
	}
	return "", nil
}

// likely names the variable that differs only in its underscores.
func (e *environment) likely(name string) string {
	bare := strings.ReplaceAll(strings.ToUpper(name), "_", "")
	for known := range e.settings {
		if strings.ReplaceAll(known, "_", "") == bare {
			return "; " + known + " exists, since __ separates sections"
		}
	}
	return "; holdfast help serve lists the settings"
}

// input makes a list of what a variable or a flag holds for a list setting.
func (s *setting) input(text string) any {
	if s.kind != kindTexts {
		return text
	}
	list := []any{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// oneUpstream is what --upstream and HOLDFAST_UPSTREAM mean.
func oneUpstream(url string) any {
	return []any{map[string]any{"url": url}}
}
