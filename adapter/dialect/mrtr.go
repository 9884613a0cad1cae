package dialect

import (
	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// MRTR is the form of the specification 2026-07-28: a call that needs input
// ends its round with an input_required result, and the client sends the
// request again with its answers (basic/patterns/mrtr). The zero value is
// ready for use.
type MRTR struct{}

// Name returns "mrtr".
func (MRTR) Name() string { return NameMRTR }

// Modern returns true.
func (MRTR) Modern() bool { return true }

// params are the members of params that dialects read, raw; nil when absent.
type params struct {
	name, uri, arguments         []byte
	inputResponses, requestState []byte
	resumeToken, taskID          []byte
	notifications                []byte
	legacyVersion                []byte // params.protocolVersion of initialize

	meta                                         []byte
	version, info, capabilities, logLevel, token []byte // members of meta

	misspelt, meant string // a member whose name is right but for its case
}

// Members whose spelling must be exact: an upstream may fold case where this
// proxy does not, and the two must never read different requests.
var (
	paramNames = []string{"_meta", "name", "uri", "arguments", "inputResponses", "requestState",
		"cursor", "ref", "argument", "context", "notifications"}
	metaNames = []string{mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities,
		mcp.MetaLogLevel, mcp.MetaProgressToken}
)

// read walks params and _meta once.
func (p *params) read(raw []byte) {
	for c := jsonrpc.Object(raw); c.Next(); {
		switch name := c.Name(); string(name) {
		case "_meta":
			p.meta = c.Value()
		case "name":
			p.name = c.Value()
		case "uri":
			p.uri = c.Value()
		case "arguments":
			p.arguments = c.Value()
		case "inputResponses":
			p.inputResponses = c.Value()
		case "requestState":
			p.requestState = c.Value()
		case "resumeToken":
			p.resumeToken = c.Value()
		case "taskId":
			p.taskID = c.Value()
		case "notifications":
			p.notifications = c.Value()
		case "protocolVersion":
			p.legacyVersion = c.Value()
		case "cursor", "ref", "argument", "context":
		default:
			if meant, ok := jsonrpc.FoldsTo(name, paramNames); ok {
				p.misspelt, p.meant = string(name), meant
			}
		}
	}
	for c := jsonrpc.Object(p.meta); c.Next(); {
		switch name := c.Name(); string(name) {
		case mcp.MetaProtocolVersion:
			p.version = c.Value()
		case mcp.MetaClientInfo:
			p.info = c.Value()
		case mcp.MetaClientCapabilities:
			p.capabilities = c.Value()
		case mcp.MetaLogLevel:
			p.logLevel = c.Value()
		case mcp.MetaProgressToken:
			p.token = c.Value()
		default:
			if meant, ok := jsonrpc.FoldsTo(name, metaNames); ok {
				p.misspelt, p.meant = string(name), meant
			}
		}
	}
}

// Decode reads a request of 2026-07-28. What decides first, when several
// things are wrong: the version, the method, then the params.
//
// Hot: once per request.
func (MRTR) Decode(msg *jsonrpc.Message, req *adapter.Request) error {
	var p params
	p.read(msg.Params)
	return p.decodeModern(msg, req)
}

// decodeModern is MRTR's Decode of params that were read.
func (p *params) decodeModern(msg *jsonrpc.Message, req *adapter.Request) error {
	req.Method, req.ID, req.Params = msg.Method, msg.ID, msg.Params
	req.Meta = p.meta

	if version, ok := text(p.version); ok && string(version) != mcp.Modern {
		return unsupported(version)
	}
	traits := mcp.MethodTraits(msg.Method)
	if !traits.Known || traits.Task {
		return unknownMethod(msg.Method, p)
	}
	if err := p.requireMeta(); err != nil {
		return err
	}
	if err := p.decodeMeta(req); err != nil {
		return err
	}
	return p.decode(traits, req)
}

// requireMeta holds _meta against what every modern request has in it: spec
// 2026-07-28, basic/index, "_meta".
func (p *params) requireMeta() error {
	switch {
	case p.misspelt != "":
		return p.spelling()
	case p.meta == nil:
		return invalid("params._meta is missing: every request carries %s and %s in it", mcp.MetaProtocolVersion, mcp.MetaClientCapabilities)
	case !jsonrpc.IsObject(p.meta):
		return invalid("params._meta must be an object")
	case p.version == nil:
		return invalid("params._meta lacks %s", mcp.MetaProtocolVersion)
	case !jsonrpc.IsString(p.version):
		return invalid("%s must be a string", mcp.MetaProtocolVersion)
	case p.capabilities == nil:
		return invalid("params._meta lacks %s", mcp.MetaClientCapabilities)
	}
	return nil
}

func (p *params) spelling() error {
	return invalid("a member of params or _meta is named %.64q: its name is spelt %q", p.misspelt, p.meant)
}

// decodeMeta reads what there is in _meta.
func (p *params) decodeMeta(req *adapter.Request) error {
	switch {
	case p.misspelt != "":
		return p.spelling()
	case p.meta != nil && !jsonrpc.IsObject(p.meta):
		return invalid("params._meta must be an object")
	case p.capabilities != nil && !jsonrpc.IsObject(p.capabilities):
		return invalid("%s must be an object", mcp.MetaClientCapabilities)
	case p.info != nil && !implementation(p.info):
		return invalid("%s must be an object with a string name and a string version", mcp.MetaClientInfo)
	case len(p.info) > maxDeclared:
		return invalid("%s is larger than %d bytes", mcp.MetaClientInfo, maxDeclared)
	case len(p.capabilities) > maxDeclared:
		return invalid("%s is larger than %d bytes", mcp.MetaClientCapabilities, maxDeclared)
	case p.token != nil && !jsonrpc.IsString(p.token) && !integer(p.token):
		return invalid("progressToken must be a string or an integer")
	}
	req.LogLevel = mcp.LevelNone
	if p.logLevel != nil {
		level, _ := text(p.logLevel)
		if req.LogLevel = mcp.ParseLevel(string(level)); req.LogLevel == mcp.LevelNone {
			return invalid("%s must be one of debug, info, notice, warning, error, critical, alert, emergency", mcp.MetaLogLevel)
		}
	}
	req.ClientInfo, req.Capabilities, req.ProgressToken = p.info, p.capabilities, p.token
	return nil
}

// maxDeclared bounds what a client says of itself, because a session keeps it
// for as long as it lives.
const maxDeclared = 64 << 10

// decode reads the other members of params.
func (p *params) decode(traits mcp.Traits, req *adapter.Request) error {
	req.Name, req.Args, req.InputResponses, req.RequestState = nil, nil, nil, nil
	req.NullArgs = false
	var ok bool
	switch traits.NameField {
	case "name":
		if req.Name, ok = text(p.name); !ok {
			return invalid("params.name of %s must be a string", req.Method)
		}
	case "uri":
		if req.Name, ok = text(p.uri); !ok {
			return invalid("params.uri of %s must be a string", req.Method)
		}
	}
	if req.Method == mcp.MethodToolsCall || req.Method == mcp.MethodPromptsGet {
		if jsonrpc.IsNull(p.arguments) {
			// The Go SDK writes a nil map so; not every legacy server takes it.
			p.arguments, req.NullArgs = nil, true
		}
		if p.arguments != nil && !jsonrpc.IsObject(p.arguments) {
			return invalid("params.arguments must be an object")
		}
		if req.Method == mcp.MethodToolsCall {
			req.Args = p.arguments
		}
	}
	// On other methods these two mean nothing (basic/patterns/mrtr, "Supported Requests").
	if !traits.Eligible {
		return nil
	}
	if p.inputResponses != nil {
		if !jsonrpc.IsObject(p.inputResponses) {
			return invalid("params.inputResponses must be an object")
		}
		req.InputResponses = p.inputResponses
	}
	if p.requestState != nil {
		if req.RequestState, ok = text(p.requestState); !ok {
			return invalid("params.requestState must be a string")
		}
	}
	return nil
}
