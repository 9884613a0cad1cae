package mcp

// Traits says how a method of the modern revision behaves.
type Traits struct {
	Known     bool
	Eligible  bool   // may be answered with input_required (spec, basic/patterns/mrtr, "Supported Requests")
	Cacheable bool   // its result carries ttlMs and cacheScope (spec, server/utilities/caching)
	Harmless  bool   // running it twice changes nothing
	Task      bool   // it is about a task: extension io.modelcontextprotocol/tasks
	NameField string // the member of params that the Mcp-Name header mirrors, or ""
	Needs     string // the server capability that it belongs to, or ""
}

// MethodTraits returns the traits of a modern client's request. The zero
// value, Known false, means that the revision has no such method.
func MethodTraits(method string) Traits {
	switch method {
	case MethodToolsCall:
		return Traits{Known: true, Eligible: true, NameField: "name", Needs: "tools"}
	case MethodPromptsGet:
		return Traits{Known: true, Eligible: true, Harmless: true, NameField: "name", Needs: "prompts"}
	case MethodResourcesRead:
		return Traits{Known: true, Eligible: true, Harmless: true, Cacheable: true, NameField: "uri", Needs: "resources"}
	case MethodToolsList:
		return Traits{Known: true, Cacheable: true, Harmless: true, Needs: "tools"}
	case MethodPromptsList:
		return Traits{Known: true, Cacheable: true, Harmless: true, Needs: "prompts"}
	case MethodResourcesList, MethodResourceTemplates:
		return Traits{Known: true, Cacheable: true, Harmless: true, Needs: "resources"}
	case MethodDiscover:
		return Traits{Known: true, Cacheable: true, Harmless: true}
	case MethodComplete:
		return Traits{Known: true, Harmless: true, Needs: "completions"}
	case MethodListen:
		return Traits{Known: true, Harmless: true}
	case MethodTaskGet, MethodTaskUpdate, MethodTaskCancel:
		return Traits{Known: true, Task: true, NameField: "taskId"}
	}
	return Traits{}
}
