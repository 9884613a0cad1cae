package main

import (
	"fmt"
	"math"
	"net/mail"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/cmd/internal/modern"
)

// formField is one field of a form: a property of a requestedSchema (spec,
// client/elicitation, "Requested Schema").
type formField struct {
	name     string
	required bool
	options  []formOption // of a choice or a multiple choice

	Type        string         `json:"type"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	Default     jsontext.Value `json:"default"`
	Format      string         `json:"format"`
	MinLength   *int           `json:"minLength"`
	MaxLength   *int           `json:"maxLength"`
	Minimum     *float64       `json:"minimum"`
	Maximum     *float64       `json:"maximum"`
	MinItems    *int           `json:"minItems"`
	MaxItems    *int           `json:"maxItems"`

	Enum      []jsontext.Value `json:"enum"`
	EnumNames []string         `json:"enumNames"`
	OneOf     []formOption     `json:"oneOf"`
	AnyOf     []formOption     `json:"anyOf"`
	Items     struct {
		Enum  []jsontext.Value `json:"enum"`
		OneOf []formOption     `json:"oneOf"`
		AnyOf []formOption     `json:"anyOf"`
	} `json:"items"`
}

// formOption is one of the values to choose from.
type formOption struct {
	Const jsontext.Value `json:"const"`
	Title string         `json:"title"`
}

// readField reads a property.
func readField(name string, schema jsontext.Value, required bool) (formField, error) {
	f := formField{name: name, required: required}
	if err := json.Unmarshal(schema, &f, jsontext.AllowInvalidUTF8(true)); err != nil {
		return f, fmt.Errorf("%w: field %q: %w", modern.ErrBroken, name, err)
	}
	f.options = append(append(f.options, f.OneOf...), f.AnyOf...)
	titles := f.EnumNames
	values := f.Enum
	if f.Type == "array" {
		f.options = append(append(f.options, f.Items.OneOf...), f.Items.AnyOf...)
		values = f.Items.Enum
	}
	for i, value := range values {
		option := formOption{Const: value}
		if i < len(titles) {
			option.Title = titles[i]
		}
		f.options = append(f.options, option)
	}
	return f, nil
}

// parse reads what was typed into the field's value. The error says what is
// wanted instead.
func (f *formField) parse(typed string) (jsontext.Value, error) {
	switch {
	case f.Type == "array" && len(f.options) > 0:
		return f.parseChoices(typed)
	case len(f.options) > 0:
		return f.parseChoice(typed)
	}
	switch f.Type {
	case "string":
		return f.parseText(typed)
	case "number", "integer":
		return f.parseNumber(typed)
	case "boolean":
		return parseBoolean(typed)
	}
	// Nothing that the revision allows in a form: it can still be answered.
	value := jsontext.Value(typed)
	if !value.IsValid() {
		return nil, fmt.Errorf("type JSON")
	}
	return value, nil
}

func (f *formField) parseText(text string) (jsontext.Value, error) {
	if strings.TrimSpace(text) == `""` {
		text = "" // the way to type an empty text: an empty line takes the default
	}
	length := utf8.RuneCountInString(text)
	if f.MinLength != nil && length < *f.MinLength {
		return nil, fmt.Errorf("at least %d characters", *f.MinLength)
	}
	if f.MaxLength != nil && length > *f.MaxLength {
		return nil, fmt.Errorf("at most %d characters", *f.MaxLength)
	}
	var err error
	switch f.Format {
	case "email":
		var address *mail.Address
		if address, err = mail.ParseAddress(text); err == nil && address.Address != text {
			err = fmt.Errorf("more than an address")
		}
	case "uri":
		var uri *url.URL
		if uri, err = url.Parse(text); err == nil && !uri.IsAbs() {
			err = fmt.Errorf("no scheme")
		}
	case "date":
		_, err = time.Parse(time.DateOnly, text)
	case "date-time":
		_, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		return nil, fmt.Errorf("not a valid %s%s", f.Format, formatExample(f.Format))
	}
	return modern.Quote(text), nil
}

func formatExample(format string) string {
	switch format {
	case "email":
		return ", such as ann@example.com"
	case "uri":
		return ", such as https://example.com/"
	case "date":
		return ", such as 2026-07-28"
	case "date-time":
		return ", such as 2026-07-28T19:30:00Z"
	}
	return ""
}

func (f *formField) parseNumber(typed string) (jsontext.Value, error) {
	value := jsontext.Value(strings.TrimSpace(typed))
	number, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !value.IsValid() || value.Kind() != '0' {
		return nil, fmt.Errorf("type a number")
	}
	if f.Minimum != nil && number < *f.Minimum {
		return nil, fmt.Errorf("at least %v", *f.Minimum)
	}
	if f.Maximum != nil && number > *f.Maximum {
		return nil, fmt.Errorf("at most %v", *f.Maximum)
	}
	if f.Type == "integer" {
		if number != math.Trunc(number) {
			return nil, fmt.Errorf("type a whole number")
		}
		if _, err := strconv.ParseInt(string(value), 10, 64); err != nil {
			value = jsontext.Value(strconv.FormatFloat(number, 'f', 0, 64)) // 5.0 and 5e0 are 5
		}
	}
	return value, nil
}

func parseBoolean(typed string) (jsontext.Value, error) {
	switch strings.ToLower(strings.TrimSpace(typed)) {
	case "y", "yes", "true":
		return jsontext.Value("true"), nil
	case "n", "no", "false":
		return jsontext.Value("false"), nil
	}
	return nil, fmt.Errorf("type yes or no")
}

// parseChoice takes an option's value, its title, or its number in the list,
// in this order: a value may look like a number.
func (f *formField) parseChoice(typed string) (jsontext.Value, error) {
	typed = strings.TrimSpace(typed)
	for _, option := range f.options {
		if option.text() == typed {
			return option.Const, nil
		}
	}
	for _, option := range f.options {
		if option.Title != "" && strings.EqualFold(option.Title, typed) {
			return option.Const, nil
		}
	}
	if n, err := strconv.Atoi(typed); err == nil && n >= 1 && n <= len(f.options) {
		return f.options[n-1].Const, nil
	}
	return nil, fmt.Errorf("type a number from 1 to %d or one of the values", len(f.options))
}

func (f *formField) parseChoices(typed string) (jsontext.Value, error) {
	chosen := []jsontext.Value{}
	if typed = strings.TrimSpace(typed); typed != `""` {
		for _, part := range strings.Split(typed, ",") {
			value, err := f.parseChoice(part)
			if err != nil {
				return nil, fmt.Errorf("%q: %w, separated by commas", strings.TrimSpace(part), err)
			}
			chosen = append(chosen, value)
		}
	}
	if f.MinItems != nil && len(chosen) < *f.MinItems {
		return nil, fmt.Errorf("choose at least %d", *f.MinItems)
	}
	if f.MaxItems != nil && len(chosen) > *f.MaxItems {
		return nil, fmt.Errorf("choose at most %d", *f.MaxItems)
	}
	return modern.Array(chosen...), nil
}

// text is how the option's value is typed.
func (o formOption) text() string {
	if text, ok := modern.Text(o.Const); ok {
		return text
	}
	return string(o.Const)
}

// hint says what the field takes, in a few words.
func (f *formField) hint() string {
	var words []string
	switch {
	case f.Type == "array" && len(f.options) > 0:
		words = append(words, "some of these, separated by commas")
	case len(f.options) > 0:
		words = append(words, "one of these")
	case f.Type == "boolean":
		words = append(words, "yes or no")
	case f.Type == "string":
		words = append(words, "text")
	case f.Type == "integer":
		words = append(words, "whole number")
	case f.Type == "number":
		words = append(words, "number")
	default:
		words = append(words, "JSON")
	}
	if f.Format != "" {
		words = append(words, oneLine(f.Format))
	}
	words = append(words, span(f.MinLength, f.MaxLength, "characters")...)
	words = append(words, span(f.Minimum, f.Maximum, "")...)
	words = append(words, span(f.MinItems, f.MaxItems, "choices")...)
	if f.required {
		words = append(words, "required")
	}
	return strings.Join(words, ", ")
}

// span words two bounds, of which each may be missing.
func span[N int | float64](least, most *N, of string) []string {
	var text string
	switch {
	case least != nil && most != nil:
		text = fmt.Sprintf("%v to %v %s", *least, *most, of)
	case least != nil:
		text = fmt.Sprintf("at least %v %s", *least, of)
	case most != nil:
		text = fmt.Sprintf("at most %v %s", *most, of)
	default:
		return nil
	}
	return []string{strings.TrimSpace(text)}
}
