package dialect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-mcp/holdfast/adapter"
	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// Names of the dialects.
const (
	NameMRTR              = "mrtr"
	NameIncompleteResult  = "incomplete-result"
	NameDependentRequests = "dependent-requests"
	NameSaga              = "saga"
	NameResumeToken       = "resume-token"
	NameResumable         = "resumable"
	NameTasks             = "tasks"
)

// Spoken is a dialect beside MRTR, and whether it is switched on.
type Spoken struct {
	Dialect
	Off     bool
	Setting string // what switches it on, for the error
}

// Set are the dialects of a transport. Its zero value, and nil, speak MRTR and
// know no other. It does not change.
type Set struct {
	names   []string // of all that are known
	spoken  []*Spoken
	methods map[string]*Spoken // that one dialect has and the revision has not

	// Those that the shape of a request tells: nil where not known.
	dependent, resumeToken, tasks *Spoken
	resumable                     *Spoken

	resumableModern Dialect // is resumable for requests with the modern envelope
}

// own are the methods that only one dialect has.
var own = map[string][]string{
	NameSaga:      {mcp.MethodCallSaga, mcp.MethodResumeSaga},
	NameResumable: {mcp.MethodResume, mcp.MethodStatus},
}

// NewSet makes a Set that knows MRTR and others, each once.
func NewSet(others ...Spoken) *Set {
	s := &Set{names: []string{NameMRTR}, methods: map[string]*Spoken{}}
	for i := range others {
		d := &others[i]
		s.names = append(s.names, d.Name())
		s.spoken = append(s.spoken, d)
		for _, method := range own[d.Name()] {
			s.methods[method] = d
		}
		switch d.Name() {
		case NameDependentRequests:
			s.dependent = d
		case NameResumeToken:
			s.resumeToken = d
		case NameTasks:
			s.tasks = d
		case NameResumable:
			s.resumable = d
			if r, ok := d.Dialect.(Resumable); ok {
				r.enveloped = true
				s.resumableModern = r
			}
		}
	}
	return s
}

// Find returns the dialect of a name; nil for MRTR, and where there is none,
// which ok tells apart.
func (s *Set) Find(name string) (d *Spoken, ok bool) {
	if s != nil {
		for _, d := range s.spoken {
			if d.Name() == name {
				return d, true
			}
		}
	}
	return nil, name == NameMRTR
}

// Extension is what server/discover says of the dialects that are switched on:
// the raw value of the capability mcp.ExtensionDialects, or nil for none.
func (s *Set) Extension() []byte {
	if s == nil {
		return nil
	}
	var out []byte
	for _, d := range s.spoken {
		if d.Off || d.Modern() { // the revision has a place for what is its own
			continue
		}
		out = append(out, ',')
		out = append(jsonrpc.AppendQuote(out, d.Name()), ':')
		if more, ok := d.Dialect.(interface{ advertised() string }); ok {
			out = append(out, more.advertised()...)
		} else {
			out = append(out, `{}`...)
		}
	}
	if out == nil {
		return nil
	}
	out[0] = '{'
	return append(out, '}')
}

// Decode decodes a request in the dialect that it is of: the one that named says,
// the text of the header Holdfast-Dialect, nil where there is none; else the one
// that its shape tells; else configured, the upstream's own, nil for MRTR. The
// dialect that it returns is nil where it could not be told, or is switched off.
//
// Hot: once per request.
func (s *Set) Decode(msg *jsonrpc.Message, named []byte, configured *Spoken, req *adapter.Request) (Dialect, error) {
	var p params
	p.read(msg.Params)
	d := configured
	if named != nil {
		var ok bool
		if d, ok = s.Find(string(named)); !ok {
			return nil, s.unknown(named)
		}
	} else if s != nil {
		d = s.recognise(msg, &p, configured)
	}
	if d == nil && named == nil && s != nil && s.tasks != nil && (Tasks{}).concerns(msg.Method, &p) {
		switch d = s.tasks; {
		case !d.Off:
		case msg.Method == mcp.MethodToolsCall: // a task is an answer that a client takes, not one that it wants
			d = nil
		default: // a modern server may have tasks of its own
			err := d.Decode(msg, req)
			req.PassOnly = d.off()
			return d.Dialect, err
		}
	}
	if d == nil {
		if p.watchesTasks(msg.Method) {
			req.PassOnly = p.noTasksHere()
		}
		return MRTR{}, p.decodeModern(msg, req)
	}
	if d.Off {
		req.ID = msg.ID
		return nil, d.off()
	}
	if p.version != nil && d == s.resumable && s.resumableModern != nil {
		return s.resumableModern, s.resumableModern.Decode(msg, req)
	}
	return d.Dialect, d.Decode(msg, req)
}

func (d *Spoken) off() error {
	return &adapter.Refusal{Reason: adapter.ReasonDialect, Detail: fmt.Sprintf("the dialect %s is switched off (%s)", d.Name(), d.Setting)}
}

// DecodeUnanswered decodes a message that gets no JSON-RPC answer, where it is of
// a dialect: a response, or a notification. It is nil without an error for any
// other.
func (s *Set) DecodeUnanswered(msg *jsonrpc.Message, req *adapter.Request) (Dialect, error) {
	if s == nil || s.resumable == nil {
		return nil, nil
	}
	d, ok := s.resumable.Dialect.(Resumable)
	if !ok {
		return nil, nil
	}
	var err error
	switch {
	case msg.IsResponse():
		ok = d.decodeResponse(msg, req)
	case msg.Method == mcp.NotifyCancelled:
		ok, err = d.decodeCancelled(msg, req)
	default:
		ok = false
	}
	switch {
	case !ok:
		return nil, nil
	case s.resumable.Off:
		return nil, s.resumable.off()
	}
	return d, err
}

// recognise tells a dialect by the shape of a request.
func (s *Set) recognise(msg *jsonrpc.Message, p *params, configured *Spoken) *Spoken {
	traits := mcp.MethodTraits(msg.Method)
	if !traits.Known {
		if d := s.methods[msg.Method]; d != nil {
			return d
		}
	}
	switch {
	case msg.Dependent != nil && s.dependent != nil:
		return s.dependent
	case p.resumeToken != nil && s.resumeToken != nil:
		return s.resumeToken
	case s.resumable != nil && declaresResumable(p.capabilities) && (p.version == nil || traits.Eligible && !s.resumable.Off && !s.makesTask(msg.Method, p)):
		return s.resumable // with the modern envelope it is an offer, and a task the revision's own
	}
	if p.version != nil { // the modern envelope
		return nil
	}
	return configured
}

// makesTask reports whether a modern request may be answered with a task.
func (s *Set) makesTask(method string, p *params) bool {
	return method == mcp.MethodToolsCall && s.tasks != nil && !s.tasks.Off && declaresTasks(p.capabilities)
}

func (s *Set) unknown(named []byte) error {
	names := []string{NameMRTR}
	if s != nil {
		names = slices.Clone(s.names)
	}
	return &adapter.Refusal{
		Reason: adapter.ReasonDialect,
		Detail: fmt.Sprintf("%s is %.64q; it may be %s", mcp.HeaderDialect, named, strings.Join(names, ", ")),
	}
}
