package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// strictYAML is the koanf parser for the file. Unlike koanf's own it refuses a
// second document, which would be ignored, and hands on every scalar as the
// text that was written: 010, 1_000, 5 and a key of digits only are then judged
// by the setting that they are for.
type strictYAML struct{}

var errDocuments = errors.New("has more than one YAML document; one is allowed")

// Unmarshal reads the one mapping of a file; nothing at all is an empty one.
func (strictYAML) Unmarshal(text []byte) (map[string]any, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, err
		}
		return nil, errDocuments
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: has no sections and settings at the top; want name: value", root.Line)
	}
	asWritten(root)
	var settings map[string]any
	if err := document.Decode(&settings); err != nil {
		return nil, err
	}
	return settings, nil
}

// Marshal is the other half of koanf.Parser.
func (strictYAML) Marshal(settings map[string]any) ([]byte, error) { return yaml.Marshal(settings) }

// asWritten makes every scalar a text, except null and the merge key <<.
func asWritten(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		if tag := n.ShortTag(); tag != "!!null" && tag != "!!merge" {
			n.Tag = "!!str"
		}
	}
	for _, part := range n.Content { // an alias has none: its anchor is visited
		asWritten(part)
	}
}
