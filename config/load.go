package config

import (
	"cmp"
	"flag"
	"fmt"
	"reflect"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
)

// Load puts the settings together: the defaults, over them the file that
// --config or HOLDFAST_CONFIG names, over it the HOLDFAST_ variables of environ,
// over them the flags that AddFlags defined on fs and that fs has parsed.
// What is wrong with them comes as an *Error, all at once; a file that cannot be
// read, or is no YAML, is an error of its own. An upstream is not required.
func Load(fs *flag.FlagSet, environ []string) (*Config, error) {
	return loadAll(fs, environ, nil)
}

// Wrap is Load for the one upstream that a command line names: a program with
// its arguments, and the names of variables that it inherits.
func Wrap(fs *flag.FlagSet, environ []string, command, env []string) (*Config, error) {
	upstream := map[string]any{"command": command[0], "args": list(command[1:]), "env": list(env)}
	return loadAll(fs, environ, []any{upstream})
}

// loadAll is Load with upstreams that a command line names, or nil.
func loadAll(fs *flag.FlagSet, environ []string, upstreams any) (*Config, error) {
	l := newLoader()
	if path := filePath(fs, environ); path != "" {
		if err := l.load(newLayer(path), file.Provider(path), strictYAML{}); err != nil {
			return nil, fmt.Errorf("settings: file %s: %w", path, err)
		}
	}
	l.filed = len(l.config.Upstreams) > 0

	e := newEnvironment()
	variables := env.Provider(".", env.Opt{
		Prefix:        envPrefix,
		EnvironFunc:   func() []string { return environ },
		TransformFunc: e.key,
	})
	if err := l.load(e.layer, variables, nil); err != nil {
		return nil, fmt.Errorf("settings: environment: %w", err)
	}
	flags, given := flagLayer(fs)
	if upstreams != nil {
		if label := flags.labels["upstreams"]; label != "" {
			flags.problems = append(flags.problems, Problem{Key: label, Want: "the command line has a command too; use one of the two"})
		}
		flags.labels["upstreams"], given["upstreams"] = commandLine, upstreams
	}
	if err := l.load(flags, confmap.Provider(given, "."), nil); err != nil {
		return nil, fmt.Errorf("settings: flags: %w", err)
	}
	return l.done()
}

// commandLine is where the settings of Wrap come from.
const commandLine = "the command line"

func list(texts []string) []any {
	l := make([]any, len(texts))
	for i, text := range texts {
		l[i] = text
	}
	return l
}

// filePath is the file to read; empty when there is none.
func filePath(fs *flag.FlagSet, environ []string) string {
	path := ""
	for _, variable := range environ {
		if value, ok := strings.CutPrefix(variable, envFile+"="); ok {
			path = value
		}
	}
	if f := fs.Lookup(flagFile); f != nil {
		path = cmp.Or(f.Value.String(), path)
	}
	return path
}

// layer is one source of settings.
type layer struct {
	name     string            // of all it holds,
	labels   map[string]string // or of what it holds, by key
	problems []Problem
}

func newLayer(name string) *layer { return &layer{name: name, labels: map[string]string{}} }

// label names where the layer has a key from.
func (l *layer) label(key string) string {
	for at := key; at != ""; at = parent(at) {
		if name, ok := l.labels[at]; ok {
			return name
		}
	}
	return l.name
}

// parent is the key that holds a key: upstreams[1].url, upstreams[1],
// upstreams, nothing.
func parent(key string) string {
	return key[:max(strings.LastIndexAny(key, ".["), 0)]
}

// loader puts layers over a Config and remembers where each value came from.
type loader struct {
	config   *Config
	problems []Problem
	sources  map[string]string // by key
	filed    bool              // the file has upstreams
}

func newLoader() *loader {
	return &loader{config: Defaults(), sources: map[string]string{}}
}

// load reads a layer with koanf. Its own way of merging is not used: there a
// key without a value, or a text where a section belongs, wipes what the layers
// below have said.
func (l *loader) load(from *layer, provider koanf.Provider, parser koanf.Parser) error {
	return koanf.New(".").Load(provider, parser, koanf.WithMergeFunc(func(settings, _ map[string]any) error {
		l.put(from, settings)
		return nil
	}))
}

func (l *loader) put(from *layer, settings map[string]any) {
	if _, ok := settings["upstreams"]; ok && l.filed { // --upstream, HOLDFAST_UPSTREAM or a command line
		from.problems = append(from.problems, Problem{
			Key:  from.label("upstreams"),
			Want: "means the one upstream there is, but the file has upstreams; use one of the two",
		})
		delete(settings, "upstreams")
	}
	d := decoder{set: map[string]bool{}}
	d.over(schema(), reflect.ValueOf(l.config).Elem(), settings, "")
	for _, p := range d.problems {
		p.Source = from.label(p.Key)
		from.problems = append(from.problems, p)
	}
	l.problems = append(l.problems, from.problems...)
	for key := range d.set {
		l.sources[key] = from.label(key)
	}
}

// done checks the whole.
func (l *loader) done() (*Config, error) {
	unread := map[string]bool{}
	for _, p := range l.problems {
		unread[p.Key] = true
	}
	for _, p := range l.config.check() {
		if unread[p.Key] || unread[parent(p.Key)] || unread[p.instead] {
			continue // what is missing there was not read
		}
		for at := p.Key; at != "" && p.Source == ""; at = parent(at) {
			p.Source = l.sources[at]
		}
		l.problems = append(l.problems, p)
	}
	if err := problemsError(l.problems); err != nil {
		return nil, err
	}
	return l.config, nil
}
