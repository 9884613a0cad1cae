package main

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/cmd/internal/modern"
)

// callArguments puts a tool's arguments together: the object of --args, then
// each --arg, which replaces a member of the same name.
func callArguments(schema jsontext.Value, object string, args []callArg) (jsontext.Value, error) {
	var members []modern.Member
	if object != "" {
		var err error
		if members, err = modern.Members(jsontext.Value(object)); err != nil {
			return nil, fmt.Errorf("--args: %w: %w", errMisused, err)
		}
		if !jsontext.Value(object).IsValid() {
			return nil, fmt.Errorf("--args: %w: no JSON object", errMisused)
		}
	}
	given := map[string]bool{}
	properties := modern.Get(schema, "properties")
	for _, arg := range args {
		if given[arg.name] {
			return nil, fmt.Errorf("--arg %s: %w: given twice", arg.name, errMisused)
		}
		given[arg.name] = true
		value := argumentValue(modern.Get(properties, arg.name), arg.value)
		members = setMember(members, modern.Member{Name: arg.name, Value: value})
	}
	return modern.Object(members...), nil
}

func setMember(members []modern.Member, member modern.Member) []modern.Member {
	for i := range members {
		if members[i].Name == member.Name {
			members[i] = member
			return members
		}
	}
	return append(members, member)
}

// argumentValue reads the text of an --arg: as a text where the schema wants
// one and nothing else; else as JSON if it is some; else as a text.
func argumentValue(schema jsontext.Value, text string) jsontext.Value {
	if !onlyText(modern.Get(schema, "type")) {
		if value := jsontext.Value(text); value.IsValid() {
			return value
		}
	}
	return modern.Quote(text)
}

// onlyText: the type is "string", or a list that allows nothing but strings
// and null.
func onlyText(kind jsontext.Value) bool {
	if name, ok := modern.Text(kind); ok {
		return name == "string"
	}
	var names []string
	if len(kind) == 0 || json.Unmarshal(kind, &names) != nil {
		return false
	}
	text := false
	for _, name := range names {
		if name != "string" && name != "null" {
			return false
		}
		text = text || name == "string"
	}
	return text
}
