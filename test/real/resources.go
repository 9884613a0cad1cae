package main

import "github.com/holdfast-mcp/holdfast/test/real/peer"

const (
	documents    = "demo://resource/static/document/"
	textTemplate = "demo://resource/dynamic/text/{resourceId}"
	blobTemplate = "demo://resource/dynamic/blob/{resourceId}"
)

// resources reads every resource, and some of every template.
func resources() []step {
	var steps []step
	for _, name := range []string{"architecture", "extension", "features", "how-it-works", "instructions", "startup", "structure"} {
		uri := documents + name + ".md"
		steps = append(steps, read(subject{"resource", uri}, uri))
	}
	for _, template := range []string{textTemplate, blobTemplate} {
		s := subject{"template", template}
		base := template[:len(template)-len("{resourceId}")]
		steps = append(steps, read(s, base+"1", timeOfDay), read(s, base+"4711", timeOfDay), read(s, base+"none"))
		for _, value := range []string{"12", "twelve", ""} {
			c := complete(object{"type": "ref/resource", "uri": template}, "resourceId", value, nil)
			c.name = "resourceId of " + template
			steps = append(steps, c)
		}
	}
	return steps
}

func read(s subject, uri string, masks ...mask) step {
	return request(s, peer.Request{Method: "resources/read", Params: object{"uri": uri}}, masks...)
}

// absent asks for what is not there.
func absent() []step {
	unknown := func(method string, params object) step {
		return request(subject{"error", method + " of what is not there"}, peer.Request{Method: method, Params: params})
	}
	return []step{
		unknown("tools/call", object{"name": "no-such-tool"}),
		unknown("prompts/get", object{"name": "no-such-prompt"}),
		unknown("resources/read", object{"uri": "demo://no/such/resource"}),
		unknown("completion/complete", object{"ref": object{"type": "ref/prompt", "name": "no-such-prompt"}, "argument": object{"name": "a", "value": ""}}),
	}
}
