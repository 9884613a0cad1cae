package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/cmd/internal/modern"
)

// Ends of a form other than its content.
var (
	errDeclined  = errors.New("declined")
	errDismissed = errors.New("dismissed")
)

// askForm asks for the fields of a form elicitation, one by one, then shows
// the answer for review before it is sent (spec, client/elicitation, "User
// Interaction Model").
func askForm(ctx context.Context, t *terminal, params jsontext.Value) (jsontext.Value, error) {
	message, _ := modern.Text(modern.Get(params, "message"))
	fields, err := readForm(modern.Get(params, "requestedSchema"))
	if err != nil {
		return nil, err
	}
	t.say("%s\n  (%s refuses, %s dismisses", indented(message), wordDecline, wordCancel)
	if slices.ContainsFunc(fields, func(f formField) bool { return !f.required }) {
		t.say(", %s leaves an optional field out", wordSkip)
	}
	t.say(")\n")
	for {
		content, err := fill(ctx, t, fields)
		if err == nil {
			var send bool
			if send, err = review(ctx, t, content); err == nil && !send {
				continue
			}
		}
		switch {
		case errors.Is(err, errDeclined):
			return elicitResult("decline", nil), nil
		case errors.Is(err, errDismissed):
			return elicitResult("cancel", nil), nil
		case err != nil:
			return nil, err
		}
		return elicitResult("accept", modern.Object(content...)), nil
	}
}

// readForm reads a schema's properties; no schema has none.
func readForm(schema jsontext.Value) ([]formField, error) {
	if len(schema) > 0 && schema.Kind() != '{' {
		return nil, fmt.Errorf("%w: requestedSchema is no object", modern.ErrBroken)
	}
	var required []string
	if list := modern.Get(schema, "required"); list != nil {
		if err := json.Unmarshal(list, &required); err != nil {
			return nil, fmt.Errorf("%w: requestedSchema: required: %w", modern.ErrBroken, err)
		}
	}
	properties, err := modern.Members(modern.Get(schema, "properties"))
	if err != nil {
		return nil, fmt.Errorf("%w: requestedSchema: %w", modern.ErrBroken, err)
	}
	var fields []formField
	for _, property := range properties {
		field, err := readField(property.Name, property.Value, slices.Contains(required, property.Name))
		if err != nil {
			return nil, err
		}
		fields = append(fields, field)
	}
	return fields, nil
}

// fill asks for every field. What was typed becomes the field's default, so
// that an edit starts from it.
func fill(ctx context.Context, t *terminal, fields []formField) ([]modern.Member, error) {
	var content []modern.Member
	for i := range fields {
		value, err := askField(ctx, t, &fields[i])
		if err != nil {
			return nil, err
		}
		if fields[i].Default = value; value != nil {
			content = append(content, modern.Member{Name: fields[i].name, Value: value})
		}
	}
	return content, nil
}

// askField asks until the value fits; nil means that the field is left out.
func askField(ctx context.Context, t *terminal, f *formField) (jsontext.Value, error) {
	title := f.Title
	if title == "" {
		title = f.name
	}
	t.say("\n  %s (%s)\n", oneLine(title), f.hint())
	if f.Description != "" {
		t.say("%s\n", indented(indented(f.Description)))
	}
	for i, option := range f.options {
		t.say("    %d) %s", i+1, oneLine(option.text()))
		if option.Title != "" && option.Title != option.text() {
			t.say(" – %s", oneLine(option.Title))
		}
		t.say("\n")
	}
	offered := ""
	if f.Default != nil {
		offered = " [" + shownValue(f.Default) + "]"
	}
	for {
		line, err := t.prompt(ctx, "  %s%s: ", oneLine(f.name), offered)
		if err != nil {
			return nil, err
		}
		value, err := f.take(line)
		if err == nil || errors.Is(err, errDeclined) || errors.Is(err, errDismissed) {
			return value, err
		}
		t.say("    %v\n", err)
	}
}

// take turns a typed line into a value: a word, the default, or what it says.
func (f *formField) take(line string) (jsontext.Value, error) {
	switch strings.TrimSpace(line) {
	case wordDecline:
		return nil, errDeclined
	case wordCancel:
		return nil, errDismissed
	case wordSkip:
		if f.required {
			return nil, errors.New("this field is required")
		}
		return nil, nil
	case "":
		if f.Default == nil && f.required {
			return nil, errors.New("this field is required")
		}
		return f.Default, nil
	}
	return f.parse(line)
}

// review shows what would be sent; false means that it is to be edited.
func review(ctx context.Context, t *terminal, content []modern.Member) (bool, error) {
	t.say("\n  The answer:\n")
	for _, member := range content {
		t.say("    %s: %s\n", oneLine(member.Name), shownValue(member.Value))
	}
	if len(content) == 0 {
		t.say("    (no fields)\n")
	}
	for {
		line, err := t.prompt(ctx, "  Send it? yes, edit, %s or %s [yes]: ", wordDecline, wordCancel)
		if err != nil {
			return false, err
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "", "y", "yes":
			return true, nil
		case "e", "edit", "n", "no":
			return false, nil
		case wordDecline:
			return false, errDeclined
		case wordCancel:
			return false, errDismissed
		}
	}
}

// shownValue shows a field's value the way it is typed.
func shownValue(value jsontext.Value) string {
	if elements, err := modern.Elements(value); err == nil {
		var shown []string
		for _, element := range elements {
			shown = append(shown, shownValue(element))
		}
		return strings.Join(shown, ", ")
	}
	switch string(value) {
	case "true":
		return "yes"
	case "false":
		return "no"
	case `""`:
		return `""`
	}
	return oneLine(formOption{Const: value}.text())
}
