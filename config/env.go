package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Env is variables for a process, each NAME=VALUE, or NAME alone, whose value
// is that of Holdfast's own variable.
type Env []string

// env reads NAME: value as well as a list.
func (d *decoder) env(s *setting, v reflect.Value, in any, key string) {
	var env Env
	switch in := in.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(in)) {
			text, ok := in[name].(string)
			if !ok || strings.Contains(name, "=") {
				d.refuse(s, key, in)
				continue
			}
			env = append(env, name+"="+text)
		}
	case []any:
		for i, element := range in {
			text, ok := element.(string)
			if !ok {
				d.refuse(s, fmt.Sprintf("%s[%d]", key, i), element)
				continue
			}
			env = append(env, text)
		}
	default:
		d.refuse(s, key, in)
		return
	}
	d.set[key] = true
	v.Set(reflect.ValueOf(env))
}

func (k *checker) env(s *setting, env Env, key string) {
	seen := map[string]bool{}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		at := join(key, shownName(name))
		switch {
		case !s.form.fits(name):
			k.note(at, "", "allowed: "+s.allowed())
		case seen[name]:
			k.note(at, "", "is there twice")
		case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
			k.note(at, "", "the value must be UTF-8 without NUL")
		case strings.Contains(value, Mask):
			k.note(at, "", masked)
		}
		seen[name] = true
	}
}

// isVariable takes any name that a process can be given.
func isVariable(name string) bool {
	return name != "" && printable(name) && !strings.ContainsAny(name, "= \t")
}

// Inherited are the variables of Holdfast's own that every command gets. The
// first six are those that the official SDKs' stdio clients hand on (TypeScript
// and Python: who the user is, and where programs are); the others say how text
// and times are written, and where temporary files belong. All else, secrets
// among it, has to be named.
func Inherited() []string {
	return []string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"}
}

// Environment is what the upstream's command gets of the variables in own, which
// are Holdfast's, and of its env. missing names those of env that are to be
// inherited and that own does not have.
func (u Upstream) Environment(own []string) (environ, missing []string) {
	have := map[string]string{}
	for _, variable := range own {
		if name, value, ok := strings.Cut(variable, "="); ok && name != "" {
			have[name] = value
		}
	}
	gets, inherited := map[string]string{}, Inherited()
	for name, value := range have {
		// A value that begins with () is a shell's function, which the SDKs leave
		// out as well: some shells run what they find in it.
		if strings.HasPrefix(value, "()") || strings.HasPrefix(name, envPrefix) {
			continue
		}
		if u.InheritEnv || slices.Contains(inherited, name) {
			gets[name] = value
		}
	}
	for _, variable := range u.Env {
		name, value, given := strings.Cut(variable, "=")
		if !given {
			if value, given = have[name]; !given {
				missing = append(missing, name)
				continue
			}
		}
		gets[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(gets)) {
		environ = append(environ, name+"="+gets[name])
	}
	return environ, missing
}
