package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/cmd/internal/modern"
)

var (
	// errMisused: the command line cannot be right.
	errMisused = errors.New("wrong use")
	// errUnanswered: a question has no answer, so that the call ends here.
	errUnanswered = errors.New("no answer")
)

// callAnswers answers what a server asks inside a call: from the prepared
// answers, from --root, or by asking the person.
type callAnswers struct {
	prepared preparedAnswers
	roots    []callRoot
	endpoint *url.URL
	person   *terminal
}

// Answer implements modern.Answerer.
func (a *callAnswers) Answer(ctx context.Context, asked modern.InputRequest) (jsontext.Value, error) {
	if answer, ok := a.prepared.take(asked.Key); ok {
		result, err := preparedResult(asked.Method, answer)
		if err != nil {
			return nil, fmt.Errorf("answer for %q: %w", asked.Key, err)
		}
		return result, nil
	}
	if asked.Method == modern.MethodListRoots {
		return rootsResult(a.roots), nil
	}
	if !a.person.interactive {
		return nil, a.missing(asked)
	}
	a.introduce(asked)
	result, err := a.ask(ctx, asked)
	if err != nil {
		return nil, fmt.Errorf("%s, key %q: %w", asked.Method, asked.Key, err)
	}
	return result, nil
}

func (a *callAnswers) ask(ctx context.Context, asked modern.InputRequest) (jsontext.Value, error) {
	if asked.Method == modern.MethodCreateMessage {
		return askText(ctx, a.person, asked.Params)
	}
	if mode, _ := modern.Text(modern.Get(asked.Params, "mode")); mode == "url" {
		return askLink(ctx, a.person, asked.Params)
	}
	return askForm(ctx, a.person, asked.Params)
}

// missing says what a script lacks, with the question, so that its answer can
// be written.
func (a *callAnswers) missing(asked modern.InputRequest) error {
	again := ""
	if a.prepared.known(asked.Key) {
		again = " once more (it was asked again)"
	}
	return fmt.Errorf("%w for %q: stdin is no terminal; give --answer '%s=JSON'%s; asked was %s %s",
		errUnanswered, asked.Key, asked.Key, again, asked.Method, plain(compact(asked.Params)))
}

// introduce says who asks (spec, client/elicitation, "User Interaction
// Model"). The name is the server's own word; the host is not.
func (a *callAnswers) introduce(asked modern.InputRequest) {
	who := asked.Server.Title
	if who == "" {
		who = asked.Server.Name
	}
	if who != "" {
		who = "“" + oneLine(who) + "” at "
	}
	a.person.say("\n%s%s asks (%s):\n", who, a.endpoint.Host, oneLine(asked.Key))
}

// rootsResult is a ListRootsResult (spec, client/roots).
func rootsResult(roots []callRoot) jsontext.Value {
	var list []jsontext.Value
	for _, root := range roots {
		members := []modern.Member{{Name: "uri", Value: modern.Quote(root.uri)}}
		if root.name != "" {
			members = append(members, modern.Member{Name: "name", Value: modern.Quote(root.name)})
		}
		list = append(list, modern.Object(members...))
	}
	return modern.Object(modern.Member{Name: "roots", Value: modern.Array(list...)})
}
