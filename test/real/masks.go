package main

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

// mask takes off an outcome what differs between two runs by nature.
type mask struct {
	name, reason string
	apply        func(o *peer.Outcome) (changed bool)
}

const methodRoots = "roots/list"

var (
	timeOfDay = mask{
		name:   "time of day",
		reason: "the server writes the time into what it makes up (in a blob, inside the base64)",
		apply:  inTexts(regexp.MustCompile(`created at \d{1,2}:\d\d:\d\d(\x{202f}| )[AP]M`), "created at <time>"),
	}
	sessionID = mask{
		name:   "session id",
		reason: "the server writes the id of its session, which is another one for each client",
		apply:  inTexts(regexp.MustCompile(`session [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "session <id>"),
	}
	taskName = mask{
		name:   "task name",
		reason: "the client names the task that it is asked as, and the server writes the name, and each of its looks at the task, into its result",
		apply: func(o *peer.Outcome) bool {
			names := inTexts(regexp.MustCompile(`"taskId": "[^"]+"`), `"taskId": "<task>"`)(o)
			return inTexts(regexp.MustCompile(`Task created: [^\n]+(\nPoll \d+: \w+)+`), "Task created: <task>, and looked at")(o) || names
		},
	}
	// logMessages: see the server's server/logging.js.
	logMessages = mask{
		name: "random level",
		reason: "the server draws the level of each log message, and the first is sent beside the result of the call that switched them on: " +
			"messages are compared by shape, all of one shape as one",
		apply: func(o *peer.Outcome) bool {
			for i, params := range o.Log {
				o.Log[i] = logShape(params)
			}
			o.Log = slices.CompactFunc(o.Log, func(a, b any) bool { return diff("", a, b) == "" })
			return len(o.Log) > 0
		},
	}
	// rootsTiming is for every call: any may be the one that is in flight.
	rootsTiming = mask{
		name: "roots/list by itself",
		reason: "the server asks for roots some 350 ms after the session began, outside any call, and again inside get-roots-list while it has no answer: " +
			"which call carries that to a modern client is chance; the question itself has a row of its own",
		apply: func(o *peer.Outcome) bool {
			before := len(o.Asked)
			o.Asked = slices.DeleteFunc(o.Asked, func(q peer.Question) bool { return q.Method == methodRoots })
			return len(o.Asked) < before
		},
	}
)

// Masks for servers other than server-everything.
var (
	instant = mask{
		name: "instant", reason: "the server answers with the time",
		apply: inTexts(regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`), "<instant>"),
	}
	viewID = mask{
		name: "view id", reason: "the server makes up an id for what it shows",
		apply: inTexts(regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "<id>"),
	}
	invented = mask{
		name: "invented data", reason: "the server draws its data by lot: the members and their kinds are compared",
		apply: func(o *peer.Outcome) bool { o.Result = shape(o.Result); return true },
	}
)

// masks are all that there are, in the order in which they are explained.
var masks = []mask{timeOfDay, sessionID, taskName, logMessages, rootsTiming, instant, viewID, invented}

var logText = regexp.MustCompile(`^([A-Z][a-z]+)([- ]level[- ]message( - SessionId [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})?$)`)

// logShape masks the level of a log message where its text names the same one,
// and the session id.
func logShape(params any) any {
	members, _ := params.(map[string]any)
	level, _ := members["level"].(string)
	text, _ := members["data"].(string)
	found := logText.FindStringSubmatch(text)
	if found == nil || strings.ToLower(found[1]) != level || len(members) != 2 {
		return params
	}
	masked := "<level>-level message"
	if found[3] != "" { // over stdio there is none
		masked += " - SessionId <id>"
	}
	return map[string]any{"level": "<level>", "data": masked}
}

// shape keeps of lists their first element, and of numbers and of texts but a
// type that they are there.
func shape(value any) any {
	switch v := value.(type) {
	case json.Number:
		return "<number>"
	case string:
		return "<text>"
	case []any:
		if len(v) > 0 {
			return []any{shape(v[0])}
		}
	case map[string]any:
		members := make(map[string]any, len(v))
		for name, member := range v {
			if members[name] = member; name != "type" {
				members[name] = shape(member)
			}
		}
		return members
	}
	return value
}

// inTexts masks in every text of a result.
func inTexts(pattern *regexp.Regexp, by string) func(o *peer.Outcome) bool {
	return func(o *peer.Outcome) bool {
		changed := false
		o.Result = texts(o.Result, func(text string) string {
			masked := pattern.ReplaceAllString(text, by)
			changed = changed || masked != text
			return masked
		})
		return changed
	}
}

// texts returns a copy of a value in which every text is changed by to; the
// text of a blob is what its base64 stands for.
func texts(value any, to func(string) string) any {
	switch v := value.(type) {
	case string:
		return to(v)
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = texts(element, to)
		}
		return list
	case map[string]any:
		members := make(map[string]any, len(v))
		for name, member := range v {
			blob, isText := member.(string)
			if name == "blob" && isText {
				if plain, err := base64.StdEncoding.DecodeString(blob); err == nil {
					members[name] = base64.StdEncoding.EncodeToString([]byte(to(string(plain))))
					continue
				}
			}
			members[name] = texts(member, to)
		}
		return members
	}
	return value
}
