package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/cmd/internal/modern"
)

// samplingResult is a CreateMessageResult with a person's text.
func samplingResult(text string) jsontext.Value {
	return modern.Object(
		modern.Member{Name: "role", Value: modern.Quote("assistant")},
		modern.Member{Name: "content", Value: modern.Object(
			modern.Member{Name: "type", Value: modern.Quote("text")},
			modern.Member{Name: "text", Value: modern.Quote(text)},
		)},
		modern.Member{Name: "model", Value: modern.Quote("human")},
		modern.Member{Name: "stopReason", Value: modern.Quote("endTurn")},
	)
}

// askText shows what a server would have a model write, and lets the person
// write it. There is no way to tell the server that nobody wants to (spec,
// basic/patterns/mrtr: the client just does not retry), so declining ends the
// call.
func askText(ctx context.Context, t *terminal, params jsontext.Value) (jsontext.Value, error) {
	var asked struct {
		SystemPrompt string         `json:"systemPrompt"`
		MaxTokens    jsontext.Value `json:"maxTokens"`
		Tools        jsontext.Value `json:"tools"`
		ToolChoice   jsontext.Value `json:"toolChoice"`
		Messages     []struct {
			Role    string         `json:"role"`
			Content jsontext.Value `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(params, &asked, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", modern.ErrBroken, err)
	}
	if asked.Tools != nil || asked.ToolChoice != nil {
		// Spec, schema CreateMessageRequestParams: an error unless declared.
		return nil, fmt.Errorf("%w: it wants tools used, which this request did not declare", modern.ErrBroken)
	}
	t.say("  It wants a text, as a model would write it")
	if asked.MaxTokens != nil {
		t.say(", of at most %s tokens", oneLine(string(asked.MaxTokens)))
	}
	t.say(".\n")
	if asked.SystemPrompt != "" {
		t.say("\n  [system]\n%s\n", indented(asked.SystemPrompt))
	}
	for _, message := range asked.Messages {
		t.say("\n  [%s]\n%s\n", oneLine(message.Role), indented(contentText(message.Content)))
	}
	t.say("\n  Type the text; an empty line ends it. %s ends the call without one.\n", wordDecline)
	return typedText(ctx, t)
}

func typedText(ctx context.Context, t *terminal) (jsontext.Value, error) {
	var lines []string
	for {
		line, err := t.prompt(ctx, "  > ")
		if err != nil {
			return nil, err
		}
		switch word := strings.TrimSpace(line); {
		case word == wordDecline || word == wordCancel:
			return nil, fmt.Errorf("%w: declined", errUnanswered)
		case word != "":
			lines = append(lines, line)
		case len(lines) > 0:
			return samplingResult(strings.Join(lines, "\n")), nil
		}
	}
}
