package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

// object is JSON that a request carries.
type object = map[string]any

// tools uses every tool but those that have a pair of their own.
func tools() []step {
	steps := []step{
		// The server asks for the roots while this runs: a question in the middle
		// of a call with progress. It comes within 350 ms, well before the first
		// step: between two rounds there is no request that could carry progress.
		running("while the server asks for roots", object{"duration": 1.2, "steps": 2}, true),
		running("without a progress token", object{"duration": 0.1, "steps": 2}, false),
		running("many steps", object{"duration": 0.5, "steps": 50}, true),

		tool("echo", object{"message": "hello"}),
		tool("echo", object{"message": "gr\u00fc\u00dfe, \u2028 \U0001F642 and \"quotes\" \\ \u0000"}),
		tool("echo", object{}),
		tool("get-annotated-message", object{"messageType": "error"}),
		tool("get-annotated-message", object{"messageType": "success", "includeImage": true}),
		tool("get-annotated-message", object{"messageType": "debug", "includeImage": false}),
		tool("get-env", object{}),
		tool("get-resource-links", object{"count": 10}),
		tool("get-resource-links", object{}),
		tool("get-resource-reference", object{"resourceType": "Text", "resourceId": 3}, timeOfDay),
		tool("get-resource-reference", object{"resourceType": "Blob", "resourceId": 4}, timeOfDay),
		tool("get-resource-reference", object{"resourceType": "Text", "resourceId": -1}),
		tool("get-structured-content", object{"location": "New York"}),
		tool("get-structured-content", object{"location": "Chicago"}),
		tool("get-structured-content", object{"location": "Los Angeles"}),
		tool("get-structured-content", object{"location": "Atlantis"}),
		tool("get-sum", object{"a": 2, "b": 3.5}),
		tool("get-sum", object{"a": json.Number("1E3"), "b": json.Number("9007199254740993")}),
		tool("get-sum", object{"a": "two", "b": 3}),
		tool("get-tiny-image", nil),
		tool("get-roots-list", nil),

		sampling(object{"prompt": "How many teeth has a \"grandfather\" clock's escape wheel?"}),
		sampling(object{"prompt": "briefly", "maxTokens": 7}),
		eliciting("everything filled in", object{"action": "accept", "content": object{
			"name": "Ada Lovelace", "check": true, "firstLine": "Call me Ishmael.", "email": "ada@example.org",
			"homepage": "https://example.org/ada", "birthdate": "1815-12-10", "integer": 7, "number": 2.5,
			"untitledSingleSelectEnum": "Ross", "untitledMultipleSelectEnum": []any{"Piano", "Bass"},
			"titledSingleSelectEnum": "hero-2", "titledMultipleSelectEnum": []any{"fish-1", "fish-3"}, "legacyTitledEnum": "pet-5",
		}}),
		eliciting("only what is required", object{"action": "accept", "content": object{"name": "Ada"}}),
		eliciting("declined", object{"action": "decline"}),
		eliciting("cancelled", object{"action": "cancel"}),
	}
	return append(append(steps, zipping()...), taskTools()...)
}

func running(what string, arguments object, progress bool) step {
	r := toolCall("trigger-long-running-operation", arguments)
	r.Progress = progress
	s := request(subject{"tool", "trigger-long-running-operation"}, r)
	s.what = what
	return s
}

func sampling(arguments object) step {
	return asking("trigger-sampling-request", arguments, "sampling/createMessage", answers["sampling/createMessage"])
}

func eliciting(what string, answer object) step {
	s := asking("trigger-elicitation-request", object{}, "elicitation/create", answer)
	s.what = what
	return s
}

// asking is a call that has to ask one question.
func asking(name string, arguments object, method string, answer any) step {
	s := tool(name, arguments)
	s.play = func(ctx context.Context, c client) ([]peer.Outcome, error) {
		r := toolCall(name, arguments)
		r.Answers = peer.Answers{method: answer}
		o, err := c.Call(ctx, r)
		if err == nil && (len(o.Asked) != 1 || o.Asked[0].Method != method) {
			err = fmt.Errorf("asked is %v, want one %s", o.Asked, method)
		}
		return outcomes(o, err)
	}
	return s
}

// zipping makes resources that live as long as the session, and reads them: all
// calls of the client have to be on one session.
func zipping() []step {
	const name = "gzip-file-as-resource"
	const data = "data:text/plain;base64,SG9sZGZhc3QgaG9sZHMgZmFzdC4gSG9sZGZhc3QgaG9sZHMgZmFzdC4="
	read := func(file string) step {
		s := request(subject{"tool", name}, peer.Request{Method: "resources/read", Params: object{"uri": "demo://resource/session/" + file}})
		s.what = "reading what it made"
		return s
	}
	listed := request(subject{"tool", name}, peer.Request{Method: "resources/list"})
	listed.what = "listing what it made"
	return []step{
		tool(name, object{"name": "whole.gz", "data": data, "outputType": "resource"}),
		tool(name, object{"name": "link.gz", "data": data, "outputType": "resourceLink"}),
		read("whole.gz"),
		read("link.gz"),
		listed,
		tool(name, object{"name": "none.gz", "data": "ftp://example.org/none"}),
	}
}

// taskTools ask their questions as tasks: they come back for the answer, once a
// second.
func taskTools() []step {
	steps := []step{
		asking("trigger-sampling-request-async", object{"prompt": "clocks"}, "sampling/createMessage", answers["sampling/createMessage"]),
		asking("trigger-elicitation-request-async", object{}, "elicitation/create", object{"action": "accept", "content": object{
			"name": "Ada Lovelace", "favoriteColor": "Blue", "agreeToTerms": true,
		}}),
		asking("trigger-elicitation-request-async", object{}, "elicitation/create", object{"action": "decline"}),
	}
	steps[2].what = "declined"
	for i := range steps {
		steps[i].masks = []mask{taskName}
	}
	return steps
}

// withoutCapabilities: tools that ask for something are not there for a client
// that cannot be asked.
func withoutCapabilities() []step {
	steps := []step{
		tool("trigger-elicitation-request", object{}),
		tool("trigger-sampling-request", object{"prompt": "clocks"}),
		tool("get-roots-list", nil),
	}
	for i := range steps {
		steps[i].what = "called by a client without the capability"
	}
	return steps
}
