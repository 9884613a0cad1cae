package config

import (
	"fmt"
	"strings"
)

// Markdown is the table of all settings for the README.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| setting | default | allowed | meaning |\n| --- | --- | --- | --- |\n")
	schema().leaves(func(s *setting) {
		fallback := "empty"
		if s.fallback != "" {
			fallback = "`" + s.fallback + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.key, fallback, cell(s.allowed()), cell(s.doc))
	})
	return b.String()
}

var cellEscapes = strings.NewReplacer("|", `\|`, "*", `\*`, "_", `\_`)

func cell(text string) string { return cellEscapes.Replace(text) }

// Usage is the settings as holdfast help serve lists them.
func Usage() string {
	var b strings.Builder
	b.WriteString(`Settings come from the defaults, a YAML file (--config FILE or HOLDFAST_CONFIG),
HOLDFAST_ variables and flags; the later wins. The setting calls.park_ttl is

  calls:
    park_ttl: 10m                  in the file
  HOLDFAST_CALLS__PARK_TTL=10m     in the environment (__ separates sections)
  --calls.park-ttl 10m             as a flag

Variables and flags separate the parts of a list by commas. --upstream URL and
HOLDFAST_UPSTREAM stand for the one upstream, where the file has none. Secrets
have no flag, upstreams[] only the file. Shorter flags: --log-level, --log-format,
--state-key-file.

`)
	schema().leaves(func(s *setting) {
		fmt.Fprintf(&b, "  %s\n", s.key)
		b.WriteString(wrapped(s.doc, "      ", 76))
		fallback := s.fallback
		if fallback == "" {
			fallback = "empty"
		}
		b.WriteString(wrapped("default: "+fallback+"; allowed: "+s.allowed(), "      ", 76))
	})
	return b.String()
}

// wrapped breaks a text into lines of a width.
func wrapped(text, indent string, width int) string {
	var b strings.Builder
	line := indent
	for word := range strings.FieldsSeq(text) {
		if line != indent && len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
	return b.String()
}
