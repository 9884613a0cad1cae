package jsonrpc

import "unicode/utf8"

// methodName returns a method's name, with U+FFFD in place of what is no valid
// UTF-8, because it ends up in logs and answers. Those that MCP has cost no
// allocation; they stand here and not in package mcp, which builds on this one.
func methodName(b []byte) string {
	switch string(b) {
	case "tools/call":
		return "tools/call"
	case "tools/list":
		return "tools/list"
	case "prompts/get":
		return "prompts/get"
	case "prompts/list":
		return "prompts/list"
	case "resources/read":
		return "resources/read"
	case "resources/list":
		return "resources/list"
	case "resources/templates/list":
		return "resources/templates/list"
	case "resources/subscribe":
		return "resources/subscribe"
	case "resources/unsubscribe":
		return "resources/unsubscribe"
	case "subscriptions/listen":
		return "subscriptions/listen"
	case "server/discover":
		return "server/discover"
	case "completion/complete":
		return "completion/complete"
	case "logging/setLevel":
		return "logging/setLevel"
	case "initialize":
		return "initialize"
	case "ping":
		return "ping"
	case "elicitation/create":
		return "elicitation/create"
	case "sampling/createMessage":
		return "sampling/createMessage"
	case "roots/list":
		return "roots/list"
	case "notifications/initialized":
		return "notifications/initialized"
	case "notifications/cancelled":
		return "notifications/cancelled"
	case "notifications/progress":
		return "notifications/progress"
	case "notifications/message":
		return "notifications/message"
	case "notifications/tools/list_changed":
		return "notifications/tools/list_changed"
	case "notifications/prompts/list_changed":
		return "notifications/prompts/list_changed"
	case "notifications/resources/list_changed":
		return "notifications/resources/list_changed"
	case "notifications/resources/updated":
		return "notifications/resources/updated"
	case "notifications/roots/list_changed":
		return "notifications/roots/list_changed"
	case "notifications/subscriptions/acknowledged":
		return "notifications/subscriptions/acknowledged"
	case "notifications/elicitation/complete":
		return "notifications/elicitation/complete"
	}
	if utf8.Valid(b) {
		return string(b)
	}
	return string(appendValid(nil, b))
}
