package modern

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// lenient lets invalid UTF-8 pass, which legacy servers behind a proxy may
// send; names that stand twice stay refused.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true))

// Member is one member of a JSON object.
type Member struct {
	Name  string
	Value jsontext.Value
}

// Members takes a JSON object apart in the order in which it was written: a
// form asks in the order of its schema. A value that is absent has none.
func Members(object jsontext.Value) ([]Member, error) {
	if len(object) == 0 {
		return nil, nil
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(object), lenient)
	token, err := decoder.ReadToken()
	if err != nil {
		return nil, err
	}
	if token.Kind() != '{' {
		return nil, fmt.Errorf("%s where an object belongs", token.Kind())
	}
	var members []Member
	for decoder.PeekKind() != '}' {
		name, err := decoder.ReadToken()
		if err != nil {
			return nil, err
		}
		member := Member{Name: name.String()}
		value, err := decoder.ReadValue()
		if err != nil {
			return nil, err
		}
		member.Value = value.Clone()
		members = append(members, member)
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, err
	}
	return members, nil
}

// Elements takes a JSON array apart.
func Elements(array jsontext.Value) ([]jsontext.Value, error) {
	var elements []jsontext.Value
	if len(array) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(array, &elements, lenient); err != nil {
		return nil, err
	}
	return elements, nil
}

// Get returns a member's value, or nil.
func Get(object jsontext.Value, name string) jsontext.Value {
	members, err := Members(object)
	if err != nil {
		return nil
	}
	for _, member := range members {
		if member.Name == name {
			return member.Value
		}
	}
	return nil
}

// Text returns the text of a JSON string; false means that it is none.
func Text(value jsontext.Value) (string, bool) {
	if value.Kind() != '"' {
		return "", false
	}
	var text string
	if err := json.Unmarshal(value, &text, lenient); err != nil {
		return "", false
	}
	return text, true
}

// Object writes members in their order; the values stand as they are.
func Object(members ...Member) jsontext.Value {
	text := []byte{'{'}
	for i, member := range members {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, Quote(member.Name)...)
		text = append(text, ':')
		text = append(text, member.Value...)
	}
	return append(text, '}')
}

// Array writes elements as they are.
func Array(elements ...jsontext.Value) jsontext.Value {
	text := []byte{'['}
	for i, element := range elements {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, element...)
	}
	return append(text, ']')
}

// Quote writes a JSON string; bytes that are no UTF-8 become U+FFFD.
func Quote(text string) jsontext.Value {
	quoted, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD"))
	return quoted
}
