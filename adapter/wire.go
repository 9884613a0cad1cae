package adapter

import (
	"errors"
	"math"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// What replicas send each other is a version, a form, and fields: a tag, a
// length and bytes each. A reader skips tags that it does not know, so that a
// newer replica may add some; a form that it does not know it refuses. All of
// it is sealed with the key ring: credentials and answers are in it.

// wireVersion is the first byte. It changes when a reader of the one before
// would misunderstand.
const wireVersion = 1

// Forms of a message: its second byte.
const (
	formRound    byte = 'r'
	formFirst    byte = 'b' // a round without a request state
	formRound2   byte = 'R' // a round that replicas of before the dialects would misunderstand
	formFirst2   byte = 'B' // likewise
	formOnce     byte = 'O' // a round without a request state that begins when its asker lets it
	formNote     byte = 'n' // a notification
	formOutcome  byte = 'o'
	formStanding byte = 'w' // how a lasting call stands that is watched
	formRefusal  byte = 'x'
	formAuth     byte = 'u' // an upstream's 401 or 403
	formError    byte = 'j' // a JSON-RPC error of our own
	formAway     byte = 'a' // the call is not here, and another may take it over
	formSeek     byte = 's'
	formFound    byte = 'f'
	formKeep     byte = 'k'
	formCopy     byte = 'y' // the outcome of a lasting call
	formSession  byte = 'l' // about shared sessions
	formTold     byte = 't' // how many events the client is known to have been told
	formEnded    byte = 'e' // ErrEnded
	formDismiss  byte = 'd' // let go of a first round
	formReady    byte = 'h' // a first round can begin
	formGo       byte = 'g' // a first round is to begin
)

// errWire is what a message is refused with that no replica of this version
// sends.
var errWire = errors.New("message of another replica is not understood")

// appendEvent writes what a round tells its client next.
func appendEvent(ev *Event) []byte {
	o, form := ev.Outcome, formOutcome
	if ev.Standing != nil {
		o, form = ev.Standing, formStanding
	}
	if o == nil {
		f := newFields(formNote, len(ev.Notification))
		f.bytes('n', ev.Notification)
		return f
	}
	f := newFields(form, len(o.Result)+len(o.Error)+len(o.State)+len(o.ServerInfo))
	f.text('m', o.Method)
	f.bytes('r', o.Result)
	f.bytes('e', o.Error)
	for _, in := range o.Inputs {
		f.text('k', in.Key)
		f.text('q', in.Method)
		f.bytes('p', in.Params)
	}
	f.bytes('s', o.State)
	f.bytes('i', o.ServerInfo)
	f.number('t', uint64(o.Cache.TTLMillis))
	f.text('c', o.Cache.Scope)
	f.bytes('b', o.Subscription)
	if s := o.Standing; s != nil {
		f.bytes('H', s.Handle)
		f.number('S', uint64(s.Status))
		f.text('M', s.Message)
		f.number('B', uint64(s.Born.UnixMilli()))
		f.number('G', uint64(s.Changed.UnixMilli()))
		f.number('L', uint64(s.TTL))
		f.number('A', uint64(s.Away))
		f.number('W', uint64(s.Waiting))
		if s.Failure != nil {
			f.bytes('F', appendEnd(s.Failure))
		}
	}
	return f
}

// appendEnd writes the error that ends a round.
func appendEnd(err error) []byte {
	var refusal *Refusal
	var auth *Unauthorized
	var envelope *jsonrpc.Error
	switch {
	case errors.As(err, &refusal):
		f := newFields(formRefusal, len(refusal.Detail)+len(refusal.Required))
		f.text('r', string(refusal.Reason))
		f.text('d', refusal.Detail)
		f.flag('m', refusal.MayHaveRun)
		f.number('a', uint64(max(refusal.RetryAfter, 0)))
		f.bytes('q', refusal.Required)
		return f
	case errors.As(err, &auth):
		f := newFields(formAuth, len(auth.Body))
		f.number('s', uint64(auth.Status))
		for _, a := range auth.Authenticate {
			f.text('a', a)
		}
		f.bytes('b', auth.Body)
		f.text('c', auth.ContentType)
		return f
	case errors.As(err, &envelope):
		f := newFields(formError, len(envelope.Data))
		f.number('c', uint64(-envelope.Code))
		f.text('m', envelope.Message)
		f.bytes('d', envelope.Data)
		return f
	}
	f := newFields(formRefusal, 0)
	f.text('r', string(ReasonInternal))
	return f
}

// errAway is what a replica answers that does not have a call, and leaves it
// to whoever can go on with it.
var errAway error = away{}

// away is an errAway that may say who has the call.
type away struct{ to string }

func (away) Error() string { return "the call is elsewhere" }

func (away) Is(err error) bool { _, ok := err.(away); return ok }

// readEvent reads what appendEvent and appendEnd wrote. The event aliases the
// message.
func readEvent(message []byte) (Event, error) {
	form, rest, err := readForm(message)
	if err != nil {
		return Event{}, err
	}
	var ev Event
	var end error
	var take func(item)
	switch form {
	case formNote:
		take = func(f item) {
			if f.tag == 'n' {
				ev.Notification = f.value
			}
		}
	case formOutcome:
		ev.Outcome = new(Outcome)
		take = ev.Outcome.take
	case formStanding:
		ev.Standing = new(Outcome)
		take = ev.Standing.take
	case formRefusal:
		r := new(Refusal)
		take, end = r.take, r
	case formAuth:
		u := new(Unauthorized)
		take, end = u.take, u
	case formError:
		e := new(jsonrpc.Error)
		end = e
		take = func(f item) {
			switch f.tag {
			case 'c':
				e.Code = -int(f.number())
			case 'm':
				e.Message = string(f.value)
			case 'd':
				e.Data = append([]byte(nil), f.value...)
			}
		}
	case formReady:
		var r ready
		if !readFields(rest, func(f item) { r.harmless = r.harmless || f.tag == 's' && f.number() != 0 }) {
			return Event{}, errWire
		}
		return Event{}, r
	case formAway:
		var to away
		if !readFields(rest, func(f item) {
			if f.tag == 'h' {
				to.to = string(f.value)
			}
		}) {
			return Event{}, errWire
		}
		return Event{}, to
	case formEnded:
		return Event{}, ErrEnded
	default:
		return Event{}, errWire
	}
	if !readFields(rest, take) || ev.Outcome == nil && ev.Standing == nil && ev.Notification == nil && end == nil ||
		ev.Standing != nil && ev.Standing.Standing == nil {
		return Event{}, errWire
	}
	return ev, end
}

func (o *Outcome) take(f item) {
	switch f.tag {
	case 'm':
		o.Method = string(f.value)
	case 'r':
		o.Result = f.value
	case 'e':
		o.Error = f.value
	case 'k':
		if len(f.value) > 0 { // none is sent empty
			o.Inputs = append(o.Inputs, Input{Key: string(f.value)})
		}
	case 'q':
		if n := len(o.Inputs); n > 0 {
			o.Inputs[n-1].Method = string(f.value)
		}
	case 'p':
		if n := len(o.Inputs); n > 0 {
			o.Inputs[n-1].Params = f.value
		}
	case 's':
		o.State = f.value
	case 'i':
		o.ServerInfo = f.value
	case 't':
		o.Cache.TTLMillis = int64(f.number())
	case 'c':
		o.Cache.Scope = string(f.value)
	case 'b':
		o.Subscription = f.value
	case 'H':
		o.Standing = &Standing{Handle: f.value, Born: time.UnixMilli(0), Changed: time.UnixMilli(0)}
	default:
		if o.Standing != nil {
			o.Standing.take(f)
		}
	}
}

func (s *Standing) take(f item) {
	switch f.tag {
	case 'S':
		s.Status = mcp.TaskStatus(min(f.number(), uint64(mcp.TaskCancelled)))
	case 'M':
		s.Message = string(f.value)
	case 'B':
		s.Born = time.UnixMilli(int64(f.number()))
	case 'G':
		s.Changed = time.UnixMilli(int64(f.number()))
	case 'L':
		s.TTL = time.Duration(min(f.number(), math.MaxInt64))
	case 'A':
		s.Away = time.Duration(min(f.number(), math.MaxInt64))
	case 'W':
		s.Waiting = int(min(f.number(), math.MaxInt32))
	case 'F':
		var to away
		_, s.Failure = readEvent(f.value)
		switch why := s.Failure; { // no call has failed with a word between replicas
		case errors.Is(why, errWire), errors.As(why, new(ready)), errors.Is(why, ErrEnded), errors.As(why, &to):
			s.Failure = refuse(ReasonInternal, "")
		}
	}
}

func (r *Refusal) take(f item) {
	switch f.tag {
	case 'r':
		r.Reason = Reason(f.value)
	case 'd':
		r.Detail = string(f.value)
	case 'm':
		r.MayHaveRun = true
	case 'a':
		r.RetryAfter = time.Duration(f.number())
	case 'q':
		r.Required = append([]byte(nil), f.value...)
	}
}

func (u *Unauthorized) take(f item) {
	switch f.tag {
	case 's':
		u.Status = int(f.number())
	case 'a':
		if len(f.value) > 0 { // none is sent empty
			u.Authenticate = append(u.Authenticate, string(f.value))
		}
	case 'b':
		u.Body = append([]byte(nil), f.value...)
	case 'c':
		u.ContentType = string(f.value)
	}
}
