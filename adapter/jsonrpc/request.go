package jsonrpc

// MaxIDBytes is how long the id of a client's message may be, as it stands in
// the text, without the quotes of a string. An id comes back with every answer
// and is kept for as long as its call.
const MaxIDBytes = 256

// MaxAskedIDBytes is the same for a response, whose id is one of ours.
const MaxAskedIDBytes = 1024

// ParseRequest reads what a client posts: one message, strictly, in which at
// most maxDepth arrays and objects are open at once, itself included.
//
// An error is an *Error, fit to be sent to the client: CodeParse when data is
// no JSON or no valid UTF-8, CodeInvalidRequest when it is no single JSON-RPC
// message, has a name twice, nests too deep, or has a member such as "Method"
// that equals one of the envelope's only when case is ignored. It wraps
// ErrSyntax, ErrUTF8, ErrDuplicate, ErrDepth or ErrInvalid. The message then
// has the id, if it could be read without doubt, and nothing else but, maybe,
// the method.
//
// Id rules: spec 2026-07-28, basic/index, "Requests". A response may come
// without an id only where it is an error (JSON-RPC 2.0, section 5).
//
// Hot: once per request.
func ParseRequest(data []byte, maxDepth int) (Message, error) {
	s := newScanner(data, Strict, maxDepth)
	defer s.free()
	var e envelope
	start := skipSpace(data, 0)
	single := start < len(data) && data[start] == '{'
	end := -1
	if single {
		end = s.envelope(start, &e)
	} else {
		end = s.value(start)
	}
	if end < 0 || !s.end(end) {
		return Message{ID: recoverID(data, s.at, s.err)}, faultError(s.fault())
	}
	if !single {
		return Message{}, invalid("a single JSON-RPC message is expected, and no batch")
	}
	return e.request()
}

// request makes a message of what a client sent.
func (e *envelope) request() (Message, error) {
	var m Message
	if e.id != nil && (isClientID(e.id) || e.method == nil && len(e.id) <= MaxAskedIDBytes && isID(e.id)) {
		m.ID = e.id
	}
	if IsString(e.method) {
		m.Method = methodName(textOf(e.method))
	}
	refused := m
	switch {
	case e.misspelt:
		return refused, invalid("a member's name differs from one of JSON-RPC only in case")
	case !isVersion(e.version):
		return refused, invalid(`jsonrpc is not "2.0"`)
	case e.id != nil && m.ID == nil:
		return refused, invalid("the id is neither a string nor an integer, or is too long")
	}
	switch {
	case e.method != nil:
		switch {
		case e.result != nil || e.error != nil:
			return refused, invalid("the message has a method and an outcome")
		case m.Method == "":
			return refused, invalid("the method is no string, or empty")
		case e.params != nil && !IsObject(e.params):
			return refused, invalid("params is no object")
		}
		m.Params, m.Dependent = e.params, e.dependent
	case e.result != nil && e.error != nil:
		return refused, invalid("the message has a result and an error")
	case e.result != nil:
		if m.ID == nil {
			return refused, invalid("the result has no id")
		}
		m.Result = e.result
	case e.error != nil:
		if !IsObject(e.error) {
			return refused, invalid("error is no object")
		}
		m.Error = e.error
	default:
		return refused, invalid("the message has neither a method nor an outcome")
	}
	return m, nil
}

func isClientID(raw []byte) bool {
	n := len(raw)
	if IsString(raw) {
		n -= 2
	}
	return n <= MaxIDBytes && isID(raw)
}

// recoverID looks for the id of a message that was refused with err at offset.
// It returns nil where there is any doubt. Clients on the official TypeScript
// SDK write the id last, so that it often comes after what was refused.
func recoverID(data []byte, offset int, err error) []byte {
	if err == ErrSyntax {
		data = data[:offset] // what comes after it may not mean what it seems to
	}
	var id []byte
	for c := Object(data); c.Next(); {
		if string(c.Name()) != "id" {
			continue
		}
		end := skipSpace(data, c.at)
		if id != nil || end >= len(data) || data[end] != ',' && data[end] != '}' || !isClientID(c.Value()) {
			return nil
		}
		id = c.Value()
	}
	return id
}
