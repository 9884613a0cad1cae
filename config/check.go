package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Validate reports everything that is impossible, as an *Error.
func (c *Config) Validate() error { return problemsError(c.check()) }

func (c *Config) check() []Problem {
	k := new(checker)
	k.each(schema(), reflect.ValueOf(*c), "")
	k.upstreams(c)
	k.together(c)
	return k.problems
}

// checker collects what is wrong with a Config.
type checker struct{ problems []Problem }

func (k *checker) note(key, value, want string) {
	k.problems = append(k.problems, Problem{Key: key, Value: value, Want: want})
}

// each checks every value by itself.
func (k *checker) each(s *setting, v reflect.Value, key string) {
	switch s.kind {
	case kindSection:
		for _, p := range s.parts {
			k.each(p, v.Field(p.field), join(key, p.name))
		}
	case kindSections:
		for i := range v.Len() {
			at := fmt.Sprintf("%s[%d]", key, i)
			for _, p := range s.parts {
				k.each(p, v.Index(i).Field(p.field), join(at, p.name))
			}
		}
	case kindText:
		k.text(s, v.String(), key)
	case kindTexts:
		for i, text := range v.Interface().([]string) {
			k.text(s, text, fmt.Sprintf("%s[%d]", key, i))
		}
	case kindPairs:
		k.pairs(s, v.Interface().(map[string]string), key)
	case kindEnv:
		k.env(s, v.Interface().(Env), key)
	default:
		if n := v; s.bounded && (n.Int() < s.least || n.Int() > s.most) {
			k.note(key, scalarText(v), "allowed: "+s.allowed())
		}
	}
}

func (k *checker) text(s *setting, text, key string) {
	value := quoted(text)
	switch {
	case s.secret:
		value = ""
	case s.address():
		value = quoted(shownURLs(text))
	}
	switch {
	case !printable(text) && (s.form == nil || !s.form.any):
		k.note(key, value, "must be UTF-8 without control characters")
	case strings.Contains(text, Mask):
		k.note(key, value, masked)
	case len(s.words) > 0 && !slices.Contains(s.words, text),
		s.form != nil && !s.form.fits(text):
		k.note(key, value, "allowed: "+s.allowed())
	}
}

const masked = "is masked, as holdfast config prints a secret; the real value belongs here"

func (k *checker) pairs(s *setting, pairs map[string]string, key string) {
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		at := join(key, shownName(name))
		switch {
		case !s.form.fits(name):
			k.note(at, "", "allowed: "+s.allowed())
		case !printable(pairs[name]):
			k.note(at, "", "the value must be UTF-8 without control characters")
		case strings.Contains(pairs[name], Mask):
			k.note(at, "", masked)
		}
	}
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// upstreams checks what must differ between upstreams, and their headers.
func (k *checker) upstreams(c *Config) {
	names, paths := map[string]int{}, map[string]int{}
	for i, u := range c.Upstreams {
		key := fmt.Sprintf("upstreams[%d]", i)
		if first, taken := names[u.Name]; taken {
			k.note(key+".name", quoted(u.Name), fmt.Sprintf("must be unique, but upstreams[%d] has it too", first))
		} else {
			names[u.Name] = i
		}
		if first, taken := paths[u.Path]; taken {
			k.note(key+".path", quoted(u.Path), fmt.Sprintf("must be unique, but upstreams[%d] has it too", first))
		} else {
			paths[u.Path] = i
		}
		if u.Resolve && len(u.Endpoints) > 0 {
			k.note(key+".endpoints", "", "resolve is set too; use one of the two")
		}
		for j, url := range u.Endpoints {
			if url == u.URL || slices.Index(u.Endpoints, url) < j {
				k.note(fmt.Sprintf("%s.endpoints[%d]", key, j), quoted(shownURL(url)), "is there twice")
			}
		}
		k.headers(u, key)
		k.server(u, key)
		if setting := c.Dialects.off(u.Dialect); setting != "" {
			k.note(key+".dialect", quoted(u.Dialect), "is switched off ("+setting+")")
		}
	}
}

// server checks that there is one way to the server, and nothing that belongs
// to another one.
func (k *checker) server(u Upstream, key string) {
	const either = "an upstream has url, the endpoint of a server, or command, a program that is one"
	switch {
	case u.URL == "" && u.Command == "":
		k.problems = append(k.problems, Problem{
			Key: key + ".url", Value: `""`, Want: "must be given, an absolute http or https URL; or command: " + either,
			instead: key + ".command",
		})
	case u.URL != "" && u.Command != "":
		k.note(key+".command", quoted(u.Command), "url is "+quoted(u.ShownURL())+"; "+either)
	case u.Command != "":
		if u.Transport != TransportAuto && u.Transport != TransportStdio {
			k.note(key+".transport", quoted(u.Transport), "allowed with command: "+TransportAuto+", "+TransportStdio)
		}
		if len(u.Headers) > 0 {
			k.note(key+".headers", "", "only with url; a command gets env")
		}
		if len(u.ForwardHeaders) > 0 {
			k.note(key+".forward_headers", "", "only with url: a command has no header fields")
		}
		if len(u.Endpoints) > 0 {
			k.note(key+".endpoints", "", "only with url")
		}
		if u.Resolve {
			k.note(key+".resolve", "true", "only with url")
		}
		if u.Protocol == ProtocolModern {
			k.note(key+".protocol", quoted(u.Protocol), "allowed with command: "+ProtocolAuto+", "+ProtocolLegacy)
		}
	default:
		if u.Transport == TransportStdio {
			k.note(key+".transport", quoted(u.Transport), "allowed with url: "+TransportAuto+", "+TransportStreamable+", "+TransportSSE)
		}
		for _, of := range []struct {
			name  string
			given bool
		}{{"args", len(u.Args) > 0}, {"env", len(u.Env) > 0}, {"dir", u.Dir != ""}, {"inherit_env", u.InheritEnv}} {
			if of.given {
				k.note(key+"."+of.name, "", "only with command")
			}
		}
	}
}

// headers refuses a field that would reach the server twice.
func (k *checker) headers(u Upstream, key string) {
	own := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(u.Headers)) {
		if low := strings.ToLower(name); own[low] {
			k.note(join(key+".headers", shownName(name)), "", "is there twice; upper and lower case are the same")
		} else {
			own[low] = true
		}
	}
	forwarded := map[string]bool{}
	for i, name := range u.ForwardHeaders {
		low, at := strings.ToLower(name), fmt.Sprintf("%s.forward_headers[%d]", key, i)
		if own[low] {
			k.note(at, quoted(name), "is in headers too; a field comes from one place")
		}
		if forwarded[low] {
			k.note(at, quoted(name), "is there twice; upper and lower case are the same")
		}
		forwarded[low] = true
	}
}

// maxKeys is how many request-state keys a key ring holds.
const maxKeys = 64

// together checks settings that make no sense beside each other.
func (k *checker) together(c *Config) {
	if c.Admin != "" && c.Admin == c.Listen && !strings.HasSuffix(c.Admin, ":0") {
		k.note("admin", quoted(c.Admin), "must differ from listen")
	}
	if len(c.State.Keys) > 0 && c.State.KeyFile != "" {
		k.note("state.key_file", quoted(c.State.KeyFile), "state.keys has keys too; use one of the two")
	}
	if len(c.State.Keys) > maxKeys {
		k.note("state.keys", "", fmt.Sprintf("has %d keys; allowed: at most %d", len(c.State.Keys), maxKeys))
	}
	k.bus(&c.Bus)
	if (c.Bus.URL != "" || c.Bus.Cluster.Listen != "") && len(c.State.Keys) == 0 && c.State.KeyFile == "" {
		k.note("state.key_file", "", "must be set, or state.keys, when there is a bus: all replicas need the same keys (holdfast keygen)")
	}
	if c.Stdio.RestartMin > c.Stdio.RestartMax {
		k.note("stdio.restart_min", durationText(c.Stdio.RestartMin),
			"must not be above stdio.restart_max, which is "+durationText(c.Stdio.RestartMax))
	}
	if c.Upstream.RetryMin > c.Upstream.RetryMax {
		k.note("upstream.retry_min", durationText(c.Upstream.RetryMin),
			"must not be above upstream.retry_max, which is "+durationText(c.Upstream.RetryMax))
	}
}

// bus checks that there is one way to the other replicas, and all that it needs.
func (k *checker) bus(b *Bus) {
	if b.URL != "" && b.Cluster.Listen != "" {
		k.note("bus.cluster.listen", quoted(b.Cluster.Listen), "bus.url is set too; use one of the two")
	}
	credentials := 0
	for _, given := range []string{b.CredentialsFile, b.NKeyFile, b.Token} {
		if given != "" {
			credentials++
		}
	}
	switch {
	case credentials > 1:
		k.note("bus.credentials_file", "", "only one of bus.credentials_file, bus.nkey_file and bus.token can be used")
	case credentials > 0 && b.URL == "":
		k.note("bus.url", "", "is empty, but credentials for it are set")
	}
	switch {
	case b.Cluster.Listen == "" && len(b.Cluster.Peers) > 0:
		k.note("bus.cluster.listen", "", "is empty, but bus.cluster.peers has some")
	case b.Cluster.Listen != "" && b.Cluster.Secret == "" && b.Cluster.TLS.CA == "":
		k.note("bus.cluster.secret", "", "must be set, the same on all replicas (or bus.cluster.tls with a ca): else anybody could join")
	}
}
