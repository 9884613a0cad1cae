package main

import (
	"fmt"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

// prompts gets every prompt, and asks for the completions of their arguments.
func prompts() []step {
	steps := []step{
		prompt("simple-prompt", nil),
		prompt("args-prompt", object{"city": "K\u00f6ln"}),
		prompt("args-prompt", object{"city": "Austin", "state": "Texas"}),
		prompt("args-prompt", object{}),
		prompt("completable-prompt", object{"department": "Sales", "name": "Eve"}),
		prompt("resource-prompt", object{"resourceType": "Text", "resourceId": "5"}, timeOfDay),
		prompt("resource-prompt", object{"resourceType": "Blob", "resourceId": "6"}, timeOfDay),
		prompt("resource-prompt", object{"resourceType": "Scroll", "resourceId": "6"}),
	}
	ofPrompt := func(prompt, argument, value string, chosen object) step {
		s := complete(object{"type": "ref/prompt", "name": prompt}, argument, value, chosen)
		s.name = fmt.Sprintf("%s of %s", argument, prompt)
		return s
	}
	for _, department := range []string{"Engineering", "Sales", "Marketing", "Support"} {
		steps = append(steps, ofPrompt("completable-prompt", "name", "", object{"department": department}))
	}
	return append(steps,
		ofPrompt("completable-prompt", "name", "E", object{"department": "Sales"}),
		ofPrompt("completable-prompt", "name", "E", nil),
		ofPrompt("completable-prompt", "department", "", nil),
		ofPrompt("completable-prompt", "department", "S", nil),
		ofPrompt("resource-prompt", "resourceType", "T", nil),
		ofPrompt("resource-prompt", "resourceId", "12", nil),
		ofPrompt("resource-prompt", "resourceId", "twelve", nil),
	)
}

func prompt(name string, arguments object, masks ...mask) step {
	r := promptOf(name)
	if arguments != nil {
		r.Params["arguments"] = arguments
	}
	return request(subject{"prompt", name}, r, masks...)
}

func promptOf(name string) peer.Request {
	return peer.Request{Method: "prompts/get", Params: object{"name": name}}
}

// complete asks how an argument could go on, given others that are chosen.
func complete(ref object, argument, value string, chosen object) step {
	params := object{"ref": ref, "argument": object{"name": argument, "value": value}}
	if chosen != nil {
		params["context"] = object{"arguments": chosen}
	}
	return request(subject{"completion", argument}, peer.Request{Method: "completion/complete", Params: params})
}
