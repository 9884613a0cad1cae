package config

import (
	"flag"
	"strings"
)

// Flags that are no setting, or a shorter name of one.
const (
	flagFile     = "config"
	flagUpstream = "upstream"
)

var shortFlags = map[string]string{
	"log-level":      "log.level",
	"log-format":     "log.format",
	"state-key-file": "state.key_file",
	"bus-url":        "bus.url",
	"cluster-listen": "bus.cluster.listen",
	"cluster-peer":   "bus.cluster.peers",
}

// flag is the setting's flag. It is empty for what no single flag can hold, and
// for secrets: other users of a machine see its command lines.
func (s *setting) flag() string {
	if !s.single() || s.secret {
		return ""
	}
	return strings.ReplaceAll(s.key, "_", "-")
}

// AddFlags defines the flags of the settings on fs, for Load to read.
func AddFlags(fs *flag.FlagSet) {
	fs.String(flagFile, "", "")
	fs.String(flagUpstream, "", "")
	schema().leaves(func(s *setting) {
		for _, name := range s.flags() {
			if s.kind == kindTexts {
				fs.Var(new(listFlag), name, "")
			} else {
				fs.String(name, "", "") // the default would say nothing: Load takes only flags that are given
			}
		}
	})
}

// flags are the setting's flag and its shorter name.
func (s *setting) flags() []string {
	var names []string
	if name := s.flag(); name != "" {
		names = append(names, name)
	}
	for short, key := range shortFlags {
		if key == s.key {
			names = append(names, short)
		}
	}
	return names
}

// listFlag is a flag that may be given more than once, also with commas.
type listFlag []string

func (l *listFlag) String() string { return strings.Join(*l, ",") }

// Set implements flag.Value.
func (l *listFlag) Set(text string) error {
	*l = append(*l, text)
	return nil
}

// flagLayer collects the flags that were given, by setting.
func flagLayer(fs *flag.FlagSet) (flags *layer, settings map[string]any) {
	flags, settings = newLayer(""), map[string]any{}
	byFlag := map[string]*setting{}
	schema().leaves(func(s *setting) {
		for _, name := range s.flags() {
			byFlag[name] = s
		}
	})
	fs.Visit(func(f *flag.Flag) {
		label, value := "--"+f.Name, f.Value.String()
		if f.Name == flagUpstream {
			flags.labels["upstreams"] = label
			settings["upstreams"] = oneUpstream(value)
			return
		}
		s, ok := byFlag[f.Name]
		if !ok {
			return // --config, or a flag of the command
		}
		if other := flags.labels[s.key]; other != "" {
			flags.problems = append(flags.problems, Problem{Key: label, Want: "means the same as " + other + "; use one of the two"})
		}
		flags.labels[s.key] = label
		settings[s.key] = s.input(value)
	})
	return flags, settings
}
