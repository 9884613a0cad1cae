package config

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAML writes every setting as a file that Load reads, with Mask in place of
// secrets: keys, header values, and the values in the query of a URL.
func (c *Config) YAML() ([]byte, error) {
	return c.yaml(func(s *setting, text string) string {
		switch {
		case s.secret && text != "":
			return Mask
		case s.address():
			return shownURLs(text)
		default:
			return text
		}
	})
}

// ShownURL is the URL as logs may have it: without the values of its query,
// which are often secrets.
func (u Upstream) ShownURL() string { return shownURL(u.URL) }

// yaml writes every setting. show says what stands for a text.
func (c *Config) yaml(show func(*setting, string) string) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(yamlNode(schema(), reflect.ValueOf(*c), show)); err != nil {
		return nil, fmt.Errorf("print settings: %w", err)
	}
	if err := encoder.Close(); err != nil {
		return nil, fmt.Errorf("print settings: %w", err)
	}
	return out.Bytes(), nil
}

func yamlNode(s *setting, v reflect.Value, show func(*setting, string) string) *yaml.Node {
	switch s.kind {
	case kindSection:
		return yamlSection(s, v, show)
	case kindSections:
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			list.Content = append(list.Content, yamlSection(s, v.Index(i), show))
		}
		return flowWhenEmpty(list)
	case kindTexts:
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, text := range v.Interface().([]string) {
			list.Content = append(list.Content, yamlText(show(s, text)))
		}
		return flowWhenEmpty(list)
	case kindEnv:
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, variable := range v.Interface().(Env) {
			name, value, given := strings.Cut(variable, "=")
			if given {
				name += "=" + show(s, value)
			}
			list.Content = append(list.Content, yamlText(name))
		}
		return flowWhenEmpty(list)
	case kindPairs:
		pairs := v.Interface().(map[string]string)
		mapping := &yaml.Node{Kind: yaml.MappingNode}
		for _, name := range slices.Sorted(maps.Keys(pairs)) {
			mapping.Content = append(mapping.Content, yamlText(name), yamlText(show(s, pairs[name])))
		}
		return flowWhenEmpty(mapping)
	case kindText:
		return yamlText(show(s, v.String()))
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: scalarText(v)}
	}
}

func yamlSection(s *setting, v reflect.Value, show func(*setting, string) string) *yaml.Node {
	section := &yaml.Node{Kind: yaml.MappingNode}
	for _, p := range s.parts {
		section.Content = append(section.Content, yamlText(p.name), yamlNode(p, v.Field(p.field), show))
	}
	return section
}

// yamlText is quoted by the encoder where it would not be read as a text.
func yamlText(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// flowWhenEmpty writes [] or {} for what is empty.
func flowWhenEmpty(n *yaml.Node) *yaml.Node {
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	return n
}
