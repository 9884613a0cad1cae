package adapter

import (
	"math"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// appendRound writes a request for the replica that has its call. takeOver
// says that the owner is lost: the reader may go on in its place.
func appendRound(req *Request, takeOver bool) []byte {
	form := formRound
	if req.beyondFirst() {
		form = formRound2
	}
	f := newFields(form, 2*len(req.Params))
	f.flag('t', takeOver)
	f.request(req)
	return f
}

// appendFirst writes a first request, or a listener's, for the replica that keeps
// the session of its key.
func appendFirst(req *Request) []byte {
	form := formFirst
	if req.beyondFirst() {
		form = formFirst2
	}
	if req.once {
		form = formOnce
	}
	f := newFields(form, 2*len(req.Params))
	f.text('e', req.endpoint)
	f.request(req)
	if req.ticket != (ticket{}) {
		f.bytes('T', req.ticket[:])
	}
	return f
}

// beyondFirst reports whether the round has what changes its meaning and the first
// readers of rounds skip: such a reader is to refuse it. How long it may be held, and
// that its call may last, they may well not know: its answer is then one that any
// client takes.
func (req *Request) beyondFirst() bool {
	return req.Wrapped || req.Carried || req.Stays || req.Away > 0 || req.Original != nil || byHandle(req.Method)
}

func (f *fields) request(req *Request) {
	f.text('u', req.Upstream)
	f.text('m', req.Method)
	f.bytes('i', req.ID)
	f.bytes('p', req.Params)
	f.bytes('N', req.Name)
	f.bytes('A', req.Args)
	f.flag('0', req.NullArgs)
	f.bytes('M', req.Meta)
	f.bytes('I', req.ClientInfo)
	f.bytes('C', req.Capabilities)
	f.number('l', uint64(req.LogLevel))
	f.bytes('P', req.ProgressToken)
	f.bytes('R', req.InputResponses)
	f.bytes('S', req.RequestState)
	f.flag('w', req.Wrapped)
	f.flag('c', req.Carried)
	f.number('o', uint64(max(req.Hold, 0)))
	f.number('D', uint64(max(req.LastingAfter, 0)))
	f.number('L', uint64(max(req.Lasting, 0)))
	f.flag('y', req.Stays)
	f.number('W', uint64(max(req.Away, 0)))
	f.bytes('O', req.Original)
	f.text('a', req.Credentials.Authorization)
	for _, c := range req.Credentials.Forward {
		f.text('f', c.Name+"\x00"+c.Value)
	}
	f.text('h', req.PrincipalHeader)
	if req.Headers != nil {
		f.flag('G', true)
		for _, h := range req.Headers.Fields() {
			f.text('H', h.Name+"\x00"+h.Value)
		}
	}
}

// readRound reads what appendRound or appendFirst wrote. The request aliases the
// message.
func readRound(b []byte, first bool, headers func([]Field) ParamChecker) (req *Request, takeOver bool, err error) {
	req = new(Request)
	var params []Field
	checked := false
	ok := readFields(b, func(f item) {
		v := f.value
		switch f.tag {
		case 't':
			takeOver = true
		case 'e':
			req.endpoint = string(v)
		case 'u':
			req.Upstream = string(v)
		case 'm':
			req.Method = string(v)
		case 'i':
			req.ID = v
		case 'p':
			req.Params = v
		case 'N':
			req.Name = v
		case 'A':
			req.Args = v
		case '0':
			req.NullArgs = true
		case 'M':
			req.Meta = v
		case 'I':
			req.ClientInfo = v
		case 'C':
			req.Capabilities = v
		case 'l':
			req.LogLevel = mcp.Level(min(f.number(), uint64(mcp.LevelEmergency)))
		case 'P':
			req.ProgressToken = v
		case 'R':
			req.InputResponses = v
		case 'S':
			req.RequestState = v
		case 'w':
			req.Wrapped = true
		case 'c':
			req.Carried = true
		case 'y':
			req.Stays = true
		case 'W':
			req.Away = time.Duration(min(f.number(), math.MaxInt64))
		case 'O':
			req.Original = v
		case 'o':
			req.Hold = time.Duration(min(f.number(), math.MaxInt64))
		case 'D':
			req.LastingAfter = time.Duration(min(f.number(), math.MaxInt64))
		case 'L':
			req.Lasting = time.Duration(min(f.number(), math.MaxInt64))
		case 'a':
			req.Credentials.Authorization = string(v)
		case 'f':
			req.Credentials.Forward = append(req.Credentials.Forward, cutField(v))
		case 'h':
			req.PrincipalHeader = string(v)
		case 'G':
			checked = true
		case 'H':
			params = append(params, cutField(v))
		case 'T':
			if len(v) == len(req.ticket) {
				req.ticket = ticket(v)
			}
		}
	})
	if !ok || first != (req.RequestState == nil) || !jsonrpc.IsObject(req.Params) || !jsonrpc.IsObject(req.Capabilities) {
		return nil, false, errWire
	}
	if checked && headers != nil {
		req.Headers = headers(params)
	}
	return req, takeOver, nil
}

func cutField(v []byte) Field {
	for i, c := range v {
		if c == 0 {
			return Field{Name: string(v[:i]), Value: string(v[i+1:])}
		}
	}
	return Field{Name: string(v)}
}
