package proxy

import "strings"

// places is an allow-list of hosts or of origins: what protects a server on
// the local machine from web pages that rebind a name to it (spec
// 2026-07-28, basic/transports/streamable-http, "Security & Endpoint").
type places struct {
	all     bool
	exact   map[string]struct{} // as written, with a port or without
	anyPort map[string]struct{} // without their port
}

// newPlaces reads an allow-list. bare says that an entry without a port
// admits every port, as it does for hosts but not for origins.
func newPlaces(list []string, bare bool) places {
	p := places{exact: map[string]struct{}{}, anyPort: map[string]struct{}{}}
	for _, entry := range list {
		entry = strings.ToLower(entry)
		host, port := cutPort(entry)
		switch {
		case entry == "*":
			p.all = true
		case port == ":*" || bare && port == "":
			p.anyPort[host] = struct{}{}
		default:
			p.exact[entry] = struct{}{}
		}
	}
	return p
}

// admits reports whether a header's value is on the list.
//
// Hot: once per request.
func (p *places) admits(value []byte) bool {
	if p.all {
		return true
	}
	if p.has(value) {
		return true
	}
	for _, c := range value {
		if 'A' <= c && c <= 'Z' {
			return p.has([]byte(strings.ToLower(string(value))))
		}
	}
	return false
}

func (p *places) has(value []byte) bool {
	if _, ok := p.exact[string(value)]; ok {
		return true
	}
	host := value
	if i := portAt(value); i >= 0 {
		host = value[:i]
	}
	_, ok := p.anyPort[string(host)]
	return ok
}

func cutPort(entry string) (host, port string) {
	if i := portAt([]byte(entry)); i >= 0 {
		return entry[:i], entry[i:]
	}
	return entry, ""
}

// portAt returns where ":port" begins, or -1. The colons of [::1] and of
// https:// begin none, nor does one that only digits or * do not follow.
func portAt(value []byte) int {
	for i := len(value) - 1; i >= 0; i-- {
		switch c := value[i]; {
		case c == ':':
			if i+1 == len(value) {
				return -1
			}
			return i
		case c < '0' || c > '9':
			if c != '*' || i != len(value)-1 {
				return -1
			}
		}
	}
	return -1
}
