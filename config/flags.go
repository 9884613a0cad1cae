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
	for name := range shortFlags {
		fs.String(name, "", "")
	}
	schema().leaves(func(s *setting) {
		if name := s.flag(); name != "" {
			fs.String(name, "", "") // the default would say nothing: Load takes only flags that are given
		}
	})
}

// flagLayer collects the flags that were given, by setting.
func flagLayer(fs *flag.FlagSet) (flags *layer, settings map[string]any) {
	flags, settings = newLayer(""), map[string]any{}
	byFlag := map[string]*setting{}
	schema().leaves(func(s *setting) {
		if name := s.flag(); name != "" {
			byFlag[name] = s
		}
		for short, key := range shortFlags {
			if key == s.key {
				byFlag[short] = s
			}
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
