package state

import "github.com/holdfast-mcp/holdfast/adapter/mcp"

// Kind is the method of an input request, in a byte. Kinds count from zero, as
// the places in Token.Asked do.
type Kind uint8

// All kinds. Their numbers stand in the plain form.
const (
	Elicitation Kind = iota // elicitation/create
	Sampling                // sampling/createMessage
	Roots                   // roots/list
	kinds
)

// KindOf returns the kind of a method; false if it is no input request.
func KindOf(method string) (Kind, bool) {
	switch method {
	case mcp.MethodElicit:
		return Elicitation, true
	case mcp.MethodCreateMessage:
		return Sampling, true
	case mcp.MethodRootsList:
		return Roots, true
	}
	return 0, false
}

// Method is the kind's name in the protocol, or "" for an unknown kind.
func (k Kind) Method() string {
	switch k {
	case Elicitation:
		return mcp.MethodElicit
	case Sampling:
		return mcp.MethodCreateMessage
	case Roots:
		return mcp.MethodRootsList
	}
	return ""
}

// Question is an input request that waits for its answer.
type Question struct {
	Key    string
	Method Kind
	Digest [16]byte // of method and params
	ID     string   // raw JSON of the id that the server gave its request, or "" where it ended the request
	Hinted bool     // the server named the key
	Params []byte   // raw JSON object, or nil: the question can be told from others, but not asked again
}

func (q Question) invalid() bool {
	return q.Method >= kinds || len(q.Key) > MaxKey || len(q.ID) > MaxID ||
		len(q.Params) > 0 && !isObject(q.Params)
}

// Answer is an input response that the call has consumed.
type Answer struct {
	Key    string
	Method Kind
	Digest [16]byte // of the question's method and params
	Hinted bool     // the server named the key
	Failed bool     // the answer was an error
	Value  []byte   // raw JSON object; it is not sealed where it is brought

	// Brought says that the client brings the value with every round. Sum is what
	// it is told by.
	Brought bool
	Sum     [16]byte
}

func (a Answer) invalid() bool {
	return a.Method >= kinds || len(a.Key) > MaxKey || !a.Brought && !isObject(a.Value)
}

// isObject looks at the brackets only: what is between them was read as JSON
// before it was sealed.
func isObject(raw []byte) bool {
	n := len(raw)
	return n >= len("{}") && n <= MaxObject && raw[0] == '{' && raw[n-1] == '}'
}
