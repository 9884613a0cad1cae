package proxy

import "bytes"

// accept is what a request's Accept fields say of the two media types that an
// answer may have. RFC 9110, section 12.5.1: the most specific range decides,
// q=0 refuses, and no field at all admits everything.
type accept struct {
	seen         bool
	json, stream rangeMatch
}

type rangeMatch struct {
	precision uint8 // 0: no range yet, 1: */*, 2: type/*, 3: the type itself
	refused   bool
}

func (m *rangeMatch) take(precision uint8, refused bool) {
	if precision > m.precision || precision == m.precision && !refused {
		m.precision, m.refused = precision, refused
	}
}

// admits reports whether the client takes both media types, as it must.
func (a *accept) admits() bool {
	return !a.seen || a.json.precision > 0 && !a.json.refused && a.stream.precision > 0 && !a.stream.refused
}

// read takes one Accept field.
//
// Hot: once per request.
func (a *accept) read(value []byte) {
	a.seen = true
	for len(value) > 0 {
		item := value
		if i := bytes.IndexByte(value, ','); i >= 0 {
			item, value = value[:i], value[i+1:]
		} else {
			value = nil
		}
		media, params := item, []byte(nil)
		if i := bytes.IndexByte(item, ';'); i >= 0 {
			media, params = item[:i], item[i+1:]
		}
		media = trim(media)
		refused := len(params) > 0 && zeroQuality(params)
		switch {
		case fold(media, "application/json"):
			a.json.take(3, refused)
		case fold(media, "text/event-stream"):
			a.stream.take(3, refused)
		case string(media) == "*/*":
			a.json.take(1, refused)
			a.stream.take(1, refused)
		case fold(media, "application/*"):
			a.json.take(2, refused)
		case fold(media, "text/*"):
			a.stream.take(2, refused)
		}
	}
}

// zeroQuality reports whether a media range's parameters have q=0.
func zeroQuality(params []byte) bool {
	for len(params) > 0 {
		param := params
		if i := bytes.IndexByte(params, ';'); i >= 0 {
			param, params = params[:i], params[i+1:]
		} else {
			params = nil
		}
		param = trim(param)
		if len(param) < 3 || param[0]|0x20 != 'q' || param[1] != '=' {
			continue
		}
		return len(bytes.Trim(param[2:], "0.")) == 0
	}
	return false
}

// jsonType reports whether a Content-Type is application/json, whatever its
// parameters.
func jsonType(value []byte) bool {
	if i := bytes.IndexByte(value, ';'); i >= 0 {
		value = trim(value[:i])
	}
	return fold(value, "application/json")
}
