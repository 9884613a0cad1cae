package jsonrpc

// Message is one JSON-RPC message. The slices alias the text that it was
// parsed from.
type Message struct {
	ID     []byte // raw id, a string or an integer; nil for a notification, and for an error response without one or with null
	Method string // empty for a response
	Params []byte // raw object; nil when absent
	Result []byte // raw; nil unless this is a result response
	Error  []byte // raw error object; nil unless this is an error response

	// Dependent is the raw dependent_responses of a client's request, which no
	// revision has, but a proposal (package dialect); nil when absent.
	Dependent []byte
}

// IsRequest reports whether the message wants a response.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether the message has a method and wants no response.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse reports whether the message is the result or the error of a request.
func (m *Message) IsResponse() bool { return m.Result != nil || m.Error != nil }

// envelope has the members of a message as they stand in the text.
type envelope struct {
	version, id, method, params, result, error, dependent []byte

	misspelt bool // there is a member whose name is right but for its case
}

var envelopeNames = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// envelope reads the object that begins at i, and returns its end, or -1. What
// was read before a fault stays in e.
func (s *scanner) envelope(i int, e *envelope) int {
	data := s.data
	if !s.push(true, i) {
		return -1
	}
	if i = skipSpace(data, i+1); i < len(data) && data[i] == '}' {
		s.pop()
		return i + 1
	}
	for {
		if i = s.name(i); i < 0 {
			return -1
		}
		start := skipSpace(data, i)
		end := s.value(start)
		if end < 0 {
			return -1
		}
		e.set(s.lastName(), data[start:end:end])
		if i = skipSpace(data, end); i >= len(data) {
			return s.fail(ErrSyntax, i)
		}
		switch data[i] {
		case ',':
			i++
		case '}':
			s.pop()
			return i + 1
		default:
			return s.fail(ErrSyntax, i)
		}
	}
}

func (e *envelope) set(name, value []byte) {
	switch string(name) {
	case "jsonrpc":
		e.version = value
	case "id":
		e.id = value
	case "method":
		e.method = value
	case "params":
		e.params = value
	case "result":
		e.result = value
	case "error":
		e.error = value
	case "dependent_responses":
		e.dependent = value
	default:
		if _, ok := FoldsTo(name, envelopeNames); ok {
			e.misspelt = true
		}
	}
}

// isVersion reports whether a raw value is the string 2.0.
func isVersion(raw []byte) bool {
	return string(raw) == `"2.0"` || IsString(raw) && string(textOf(raw)) == "2.0"
}

// isID reports whether raw is a string or an integer, valid by itself.
func isID(raw []byte) bool {
	if IsString(raw) {
		end, flags := scanString(raw, 1, true)
		return flags&textFaults == 0 && end == len(raw)
	}
	end, integer := scanNumber(raw, 0)
	return integer && end == len(raw)
}
