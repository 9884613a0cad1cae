package mcp

// Methods of the modern revision (2026-07-28).
const (
	MethodDiscover          = "server/discover"
	MethodToolsList         = "tools/list"
	MethodToolsCall         = "tools/call"
	MethodPromptsList       = "prompts/list"
	MethodPromptsGet        = "prompts/get"
	MethodResourcesList     = "resources/list"
	MethodResourceTemplates = "resources/templates/list"
	MethodResourcesRead     = "resources/read"
	MethodComplete          = "completion/complete"
	MethodListen            = "subscriptions/listen"
	MethodTaskUpdate        = "tasks/update" // extension io.modelcontextprotocol/tasks, beside tasks/get and tasks/cancel
)

// Methods that only legacy revisions have, and input requests, which legacy
// servers send as JSON-RPC requests and modern ones inside a result.
const (
	MethodInitialize    = "initialize"
	MethodPing          = "ping"
	MethodSetLevel      = "logging/setLevel"
	MethodSubscribe     = "resources/subscribe"
	MethodUnsubscribe   = "resources/unsubscribe"
	MethodElicit        = "elicitation/create"
	MethodCreateMessage = "sampling/createMessage"
	MethodRootsList     = "roots/list"
	MethodTaskGet       = "tasks/get"
	MethodTaskResult    = "tasks/result"
	MethodTaskCancel    = "tasks/cancel"
	MethodTaskInput     = "tasks/input_response" // of the draft of SEP-2322
)

// Methods of proposals (package dialect).
const (
	MethodCallSaga   = "tools/callSaga"
	MethodResumeSaga = "tools/resumeSaga"

	// Of the dialect resumable: "Transport-agnostic Resumable Requests".
	MethodResume       = "requests/resume"
	MethodStatus       = "requests/getStatus"
	NotifyResumePolicy = "notifications/requests/resumePolicy"
	// CapabilityResumable is what its clients declare.
	CapabilityResumable = "resumableRequests"

	// No client sends these: they stand for a response, and for
	// notifications/cancelled, about a request that it follows.
	MethodAnswer = "requests/answer"
	MethodCancel = "requests/cancel"
)

// Notifications.
const (
	NotifyInitialized          = "notifications/initialized"
	NotifyCancelled            = "notifications/cancelled"
	NotifyProgress             = "notifications/progress"
	NotifyMessage              = "notifications/message"
	NotifyToolsChanged         = "notifications/tools/list_changed"
	NotifyPromptsChanged       = "notifications/prompts/list_changed"
	NotifyResourcesChanged     = "notifications/resources/list_changed"
	NotifyResourceUpdated      = "notifications/resources/updated"
	NotifyTask                 = "notifications/tasks" // extension io.modelcontextprotocol/tasks
	NotifyAcknowledged         = "notifications/subscriptions/acknowledged"
	NotifyElicitationCompleted = "notifications/elicitation/complete" // legacy, 2025-11-25
	NotifyTaskStatus           = "notifications/tasks/status"         // likewise
)

// Keys of _meta. Spec 2026-07-28, basic/index, "_meta".
const (
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	ExtensionTasks         = "io.modelcontextprotocol/tasks"
	MetaRelatedTask        = "io.modelcontextprotocol/related-task" // legacy, 2025-11-25
	MetaProgressToken      = "progressToken"

	// MetaKeyHint is where a legacy server may name the input request key that
	// its question should get (design.md, "Words": input request).
	MetaKeyHint = "dev.holdfast/key"
	// ExtensionDialects is the capability under which server/discover names the
	// dialects that are spoken beside the revision's own form.
	ExtensionDialects = "dev.holdfast/dialects"
)

// HTTP headers, in the spelling that fasthttp's normalisation produces.
const (
	HeaderProtocolVersion = "Mcp-Protocol-Version"
	HeaderMethod          = "Mcp-Method"
	HeaderName            = "Mcp-Name"
	HeaderSessionID       = "Mcp-Session-Id" // legacy only
	HeaderParamPrefix     = "Mcp-Param-"
	HeaderLastEventID     = "Last-Event-Id"
	HeaderDialect         = "Holdfast-Dialect" // of our own
)

// Revisions of the protocol, oldest first.
const (
	Version20241105 = "2024-11-05"
	Version20250326 = "2025-03-26"
	Version20250618 = "2025-06-18"
	Version20251125 = "2025-11-25"
	Version20260728 = "2026-07-28"
)

// Modern is the revision spoken to clients; Latest is the newest legacy
// revision, which initialize offers to servers.
const (
	Modern = Version20260728
	Latest = Version20251125
)

// LegacyVersion reports whether v is a revision with a handshake.
func LegacyVersion(v string) bool { return ParseRevision(v).Legacy() }

// Error codes. Spec 2026-07-28, basic/index, "Error Codes". The last two are
// legacy codes, which a modern server must not send.
const (
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022

	CodeLegacyResourceNotFound = -32002 // now -32602
	CodeLegacyURLElicitation   = -32042 // now an input_required result
)
