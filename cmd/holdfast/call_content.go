package main

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/cmd/internal/modern"
)

// contentText shows content for people: one block or an array of them. Texts
// are given as they are, everything else as a line in brackets.
func contentText(content jsontext.Value) string {
	if content.Kind() != '[' {
		return blockText(content)
	}
	blocks, err := modern.Elements(content)
	if err != nil {
		return "[content that cannot be read]"
	}
	var shown []string
	for _, block := range blocks {
		shown = append(shown, blockText(block))
	}
	return strings.Join(shown, "\n")
}

// blockText shows one content block (spec, server/tools, "Tool Result").
func blockText(block jsontext.Value) string {
	var b struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Data     string `json:"data"`
		MIMEType string `json:"mimeType"`
		URI      string `json:"uri"`
		Name     string `json:"name"`
		Resource struct {
			URI      string `json:"uri"`
			MIMEType string `json:"mimeType"`
			Text     string `json:"text"`
			Blob     string `json:"blob"`
		} `json:"resource"`
	}
	if err := json.Unmarshal(block, &b, jsontext.AllowInvalidUTF8(true)); err != nil {
		return "[content that cannot be read]"
	}
	switch b.Type {
	case "text":
		return b.Text
	case "image", "audio":
		return fmt.Sprintf("[%s, %s, %d bytes]", b.Type, b.MIMEType, decodedLen(b.Data))
	case "resource_link":
		return fmt.Sprintf("[link to resource %s, %s]", b.Name, b.URI)
	case "resource":
		if b.Resource.Blob != "" {
			return fmt.Sprintf("[resource %s, %s, %d bytes]", b.Resource.URI, b.Resource.MIMEType, decodedLen(b.Resource.Blob))
		}
		return fmt.Sprintf("[resource %s, %s]\n%s", b.Resource.URI, b.Resource.MIMEType, b.Resource.Text)
	}
	return fmt.Sprintf("[content of type %q]", b.Type)
}

func decodedLen(text string) int {
	return base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(text, "=")))
}

// sameJSON reports whether a text is the same JSON value as another.
func sameJSON(text string, value jsontext.Value) bool {
	a, b := jsontext.Value(text).Clone(), value.Clone()
	return a.Canonicalize() == nil && b.Canonicalize() == nil && string(a) == string(b)
}
