package mcp

// Revision is a revision of the protocol; a later one is greater. Zero is none
// that is known.
type Revision uint8

// The revisions there are. All but the last have a handshake and a session.
const (
	R20241105 Revision = iota + 1
	R20250326
	R20250618
	R20251125
	R20260728
)

var revisionNames = [...]string{"", Version20241105, Version20250326, Version20250618, Version20251125, Version20260728}

// ParseRevision reads a revision's name.
func ParseRevision(version string) Revision {
	for r := R20241105; r <= R20260728; r++ {
		if revisionNames[r] == version {
			return r
		}
	}
	return 0
}

func (r Revision) String() string {
	if int(r) < len(revisionNames) {
		return revisionNames[r]
	}
	return ""
}

// Legacy reports whether the revision has a handshake.
func (r Revision) Legacy() bool { return r >= R20241105 && r <= R20251125 }

// Has reports whether the revision knows a feature.
func (r Revision) Has(f Feature) bool {
	d := &differences[f]
	return r >= d.Since && r <= d.Until
}

// Feature is something that not all revisions have, or that they name
// differently.
type Feature uint8

// What differs between the revisions. Features that pass through as they stand
// where a server has them are in the table all the same, so that it is whole.
const (
	// On the wire.
	Handshake Feature = iota
	VersionHeader
	SessionID
	Batches
	Redelivery
	Ping
	DiscoverMethod

	// What a server sends, and a modern client must not see, or must see
	// differently.
	ServerRequests
	SetLevel
	ResourceSubscriptions
	ResourceNotFoundCode
	URLErrorCode
	ElicitationIDs
	Tasks
	ResultTypes
	CacheHints
	ServerInfoMeta

	// What a client sends, and not every server knows.
	RequestMeta
	InputResponses
	Extensions
	RootsChanged
	CompletionContext
	Elicitation
	ElicitationModes
	MultiSelect
	SamplingBlocks
	SamplingToolUse
	SamplingAudio

	// What passes as it stands.
	ToolAnnotations
	AudioContent
	ProgressMessages
	CompletionsCapability
	StructuredContent
	ResourceLinks
	Titles
	Icons
	EnumTitles
	FormDefaults

	features
)

// Difference is one row of the table of revisions.
type Difference struct {
	What         string
	Since, Until Revision // the revisions that have it, both included
	Source       string   // page of the specification, "/specification/" left out
	Here         string   // what becomes of it between a client of the modern revision and a server of another
}

// differences is the table: what each revision lacks, adds or names differently.
// It was made from the changelogs and held against the JSON schemas of all five.
var differences = [features]Difference{
	Handshake: {"initialize, notifications/initialized", R20241105, R20251125, "2026-07-28/changelog, 2",
		"done once for a session; the client's server/discover is answered from it"},
	VersionHeader: {"the header MCP-Protocol-Version", R20250618, R20260728, "2025-06-18/changelog, 8",
		"sent to servers whose revision has it"},
	SessionID: {"the header Mcp-Session-Id", R20250326, R20251125, "2026-07-28/changelog, 1",
		"never reaches a client"},
	Batches: {"arrays of JSON-RPC messages", R20250326, R20250326, "2025-06-18/changelog, 1",
		"read from any server, sent to none; a client's are refused"},
	Redelivery: {"event ids and Last-Event-ID", R20250326, R20251125, "2026-07-28/changelog, 9",
		"used towards the server; a client's stream has no ids"},
	Ping: {"ping", R20241105, R20251125, "2026-07-28/changelog, 5",
		"a server's is answered here; a client's is no method"},
	DiscoverMethod: {"server/discover", R20260728, R20260728, "2026-07-28/changelog, 3",
		"answered here; sent once to find out whether a server is modern"},

	ServerRequests: {"elicitation/create, sampling/createMessage and roots/list as requests of the server", R20241105, R20251125, "2026-07-28/changelog, 7",
		"become input requests, and input responses become their answers"},
	SetLevel: {"logging/setLevel", R20241105, R20251125, "2026-07-28/changelog, 5",
		"sent as the clients' requests say in _meta; messages are filtered by each one's level"},
	ResourceSubscriptions: {"resources/subscribe, resources/unsubscribe and the GET stream", R20241105, R20251125, "2026-07-28/changelog, 4",
		"done for subscriptions/listen"},
	ResourceNotFoundCode: {"error -32002, resource not found", R20241105, R20251125, "2026-07-28/changelog, minor 6",
		"becomes -32602"},
	URLErrorCode: {"error -32042, URL elicitation required", R20251125, R20251125, "2026-07-28/basic/index, Error Codes",
		"becomes input requests; the retry sends the request anew"},
	ElicitationIDs: {"elicitationId and notifications/elicitation/complete", R20251125, R20251125, "2026-07-28/changelog, minor 11",
		"taken off; the notification lets the call go on that waits for it"},
	Tasks: {"tasks: params.task, tasks/get, tasks/result, tasks/cancel, tasks/list, execution.taskSupport, the capability", R20251125, R20251125, "2026-07-28/changelog, 6",
		"tools that demand it are called as tasks, and a server may ask its questions as tasks; a client sees none of it"},
	ResultTypes: {"resultType", R20260728, R20260728, "2026-07-28/changelog, 8",
		"added to every result, taken off every answer"},
	CacheHints: {"ttlMs and cacheScope", R20260728, R20260728, "2026-07-28/changelog, minor 5",
		"added where the method has them"},
	ServerInfoMeta: {"serverInfo in the _meta of results", R20260728, R20260728, "2026-07-28/changelog, 2",
		"added from what the server said at initialize"},

	RequestMeta: {"protocolVersion, clientInfo, clientCapabilities and logLevel in the _meta of requests", R20260728, R20260728, "2026-07-28/changelog, 2",
		"taken off; initialize carries what of it older revisions have"},
	InputResponses: {"params.inputResponses and params.requestState", R20260728, R20260728, "2026-07-28/changelog, 7",
		"taken off"},
	Extensions: {"extensions among the capabilities", R20260728, R20260728, "2026-07-28/changelog, minor 1",
		"passed on, for servers that have had them by agreement; but not io.modelcontextprotocol/tasks, which is spoken to clients only"},
	RootsChanged: {"notifications/roots/list_changed and roots.listChanged", R20241105, R20251125, "2026-07-28/changelog, 5",
		"not declared: no client can tell"},
	CompletionContext: {"context in completion/complete", R20250618, R20260728, "2025-06-18/changelog, schema 2",
		"left out for servers that do not have it"},
	Elicitation: {"elicitation/create", R20250618, R20260728, "2025-06-18/changelog, 6",
		"the capability is declared before the revision is known; older servers do not ask"},
	ElicitationModes: {"URL mode, and modes among the capabilities", R20251125, R20260728, "2025-11-25/changelog, 6",
		"declared likewise; content is left out of answers to it"},
	MultiSelect: {"lists among the values of a form", R20251125, R20260728, "2025-11-25/changelog, 5",
		"values that older servers did not ask for are left out"},
	SamplingBlocks: {"several blocks in the content of a sampling result", R20251125, R20260728, "2025-11-25/changelog, 7",
		"one is given alone, texts are joined, others are asked for again"},
	SamplingToolUse: {"tool use in sampling", R20251125, R20260728, "2025-11-25/changelog, 7",
		"asked for again where the server cannot read it"},
	SamplingAudio: {"audio in sampling", R20250326, R20260728, "2025-03-26/changelog, schema",
		"asked for again where the server cannot read it"},

	ToolAnnotations: {"annotations of tools", R20250326, R20260728, "2025-03-26/changelog, 4",
		"passed on; without them a tool may not run twice"},
	AudioContent: {"audio content", R20250326, R20260728, "2025-03-26/changelog, schema",
		"passed on"},
	ProgressMessages: {"message in notifications/progress", R20250326, R20260728, "2025-03-26/changelog, schema",
		"passed on"},
	CompletionsCapability: {"the capability completions", R20250326, R20260728, "2025-03-26/changelog, schema",
		"not made up for older servers; completion/complete is passed on all the same"},
	StructuredContent: {"structuredContent and outputSchema", R20250618, R20260728, "2025-06-18/changelog, 2",
		"passed on"},
	ResourceLinks: {"resource links in results", R20250618, R20260728, "2025-06-18/changelog, 7",
		"passed on"},
	Titles: {"title, and _meta of tools, prompts, resources and content", R20250618, R20260728, "2025-06-18/changelog, schema 1 and 3",
		"passed on"},
	Icons: {"icons", R20251125, R20260728, "2025-11-25/changelog, 2",
		"passed on"},
	EnumTitles: {"choices with titles (oneOf, anyOf) in forms", R20251125, R20260728, "2025-11-25/changelog, 5",
		"passed on; enumNames, as older servers have them, too"},
	FormDefaults: {"default values in forms", R20251125, R20260728, "2025-11-25/changelog, minor 9",
		"passed on"},
}

// Differences returns the table of revisions, by Feature.
func Differences() []Difference { return append([]Difference(nil), differences[:]...) }
