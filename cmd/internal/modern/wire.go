package modern

// Version is the protocol revision that this client speaks.
const Version = "2026-07-28"

// Methods that the client sends, and those that it may find asked of it
// inside an InputRequiredResult.
const (
	methodDiscover  = "server/discover"
	methodToolsList = "tools/list"
	methodToolsCall = "tools/call"

	MethodElicit        = "elicitation/create"
	MethodCreateMessage = "sampling/createMessage"
	MethodListRoots     = "roots/list"
)

// Notifications that may come before the answer.
const (
	notifyProgress = "notifications/progress"
	notifyMessage  = "notifications/message"
)

// Keys of _meta (spec, basic/index, "_meta").
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClientInfo   = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaServerInfo   = "io.modelcontextprotocol/serverInfo"
	metaProgress     = "progressToken"
)

// Headers that mirror the body (spec, basic/transports/streamable-http,
// "Request Metadata").
const (
	headerVersion = "MCP-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerParam   = "Mcp-Param-"
)

// Values of resultType; every other one is invalid (spec, basic/index,
// "ResultType").
const (
	typeComplete      = "complete"
	typeInputRequired = "input_required"
)

// LogLevels are the levels of log messages, the most verbose first (spec,
// server/utilities/logging, "Log Levels").
var LogLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// codeHeaderMismatch: the Mcp-* headers did not fit the body.
const codeHeaderMismatch = -32020

// MaxMessage is the most that is read of one JSON body or one SSE event.
const MaxMessage = 16 << 20

// Bounds of what a server can make the client do.
const (
	maxRounds    = 20 // of one call
	maxPages     = 100
	maxListBytes = 4 * MaxMessage
)
