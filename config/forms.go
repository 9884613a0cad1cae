package config

import (
	"net"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

// form is the shape of a text: of the one that a setting holds, or of each
// where it holds several (of each name where it holds pairs).
type form struct {
	want string
	fits func(text string) bool
	any  bool // control characters may be in it
}

var forms = map[string]form{
	"address":    {want: "host:port", fits: isAddress},
	"address?":   {want: "host:port or empty", fits: orEmpty(isAddress)},
	"name":       {want: "1 to 63 of a-z, 0-9 and -", fits: regexp.MustCompile(`^[a-z0-9-]{1,63}$`).MatchString},
	"url":        {want: "an absolute http or https URL without user and fragment", fits: isEndpoint},
	"url?":       {want: "an absolute http or https URL without user and fragment, or empty with command", fits: orEmpty(isEndpoint)},
	"argument":   {want: "texts without NUL", fits: isArgument, any: true},
	"variables":  {want: "names of variables, with values or without", fits: isVariable},
	"path":       {want: "an absolute path such as /mcp, without encoding, empty or dotted parts, not below /.well-known", fits: isPath},
	"headers":    {want: "header names (not Host, Content-*, Mcp-*, Accept, Last-Event-ID or hop-by-hop) with values without line breaks", fits: isOwnHeader},
	"forward":    {want: "header names (not Authorization, Host, Content-*, Mcp-*, Accept, Last-Event-ID, hop-by-hop or with _)", fits: isForwardHeader},
	"header?":    {want: "a header name (not Host, Content-*, Mcp-*, Accept, Last-Event-ID, hop-by-hop or with _) or empty", fits: orEmpty(isCallerHeader)},
	"origin":     {want: "* or scheme://host with :port or :* (any port)", fits: isOrigin},
	"host":       {want: "* or a host with or without :port, IPv6 in brackets", fits: isHost},
	"nats?":      {want: "nats://, tls://, ws:// or wss:// URLs with commas between, or empty", fits: orEmpty(isNATS)},
	"capability": {want: "elicitation, elicitation.url, sampling, sampling.tools, roots", fits: isCapability},
	"key":        {want: "64 hexadecimal digits, not all zero", fits: isKey},
}

func orEmpty(fits func(string) bool) func(string) bool {
	return func(text string) bool { return text == "" || fits(text) }
}

var (
	hostName   = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	originForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://(.+)$`)
	pathForm   = regexp.MustCompile(`^/[A-Za-z0-9._~/-]*$`)
	token      = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // RFC 9110, 5.6.2
	keyForm    = regexp.MustCompile(`^[0-9A-Fa-f]{64}$`)
)

// isAddress takes what net.Listen does for TCP, with a numeric port.
func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil || !isPort(port) {
		return false
	}
	if strings.Contains(host, ":") {
		return isIPv6(host)
	}
	return host == "" || hostName.MatchString(host)
}

func isPort(text string) bool {
	n, ok := parseInteger(text)
	return ok && n >= 0 && n <= 65535
}

// isIPv6 takes a zone as well: fe80::1%eth0.
func isIPv6(text string) bool {
	address, zone, zoned := strings.Cut(text, "%")
	return strings.Contains(address, ":") && net.ParseIP(address) != nil && (!zoned || hostName.MatchString(zone))
}

// isHost takes what a Host header may hold, and *.
func isHost(text string) bool {
	if text == "*" {
		return true
	}
	host, rest := text, ""
	if strings.HasPrefix(text, "[") {
		end := strings.IndexByte(text, ']')
		if end < 0 || !isIPv6(text[1:end]) {
			return false
		}
		host, rest = "v6", text[end+1:]
	} else if i := strings.IndexByte(text, ':'); i >= 0 {
		host, rest = text[:i], text[i:]
	}
	if !hostName.MatchString(host) {
		return false
	}
	return rest == "" || rest == ":*" || rest[0] == ':' && isPort(rest[1:])
}

// isOrigin leaves out null: what sends it is no one place.
func isOrigin(text string) bool {
	if text == "*" {
		return true
	}
	m := originForm.FindStringSubmatch(text)
	return m != nil && m[1] != "*" && isHost(m[1])
}

func isEndpoint(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || strings.Contains(text, "#") {
		return false
	}
	return u.Hostname() != "" && (u.Port() == "" || isPort(u.Port())) && isHost(u.Host) && !strings.Contains(u.Host, "*")
}

func isNATS(text string) bool {
	for one := range strings.SplitSeq(text, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Hostname() == "" || u.Port() != "" && !isPort(u.Port()) {
			return false
		}
		switch u.Scheme {
		case "nats", "tls", "ws", "wss":
		default:
			return false
		}
	}
	return true
}

// isPath takes only paths that arrive as they are written: servers and proxies
// rewrite %41, // and /../ each in their own way.
func isPath(text string) bool {
	if !pathForm.MatchString(text) || path.Clean(text) != text {
		return false
	}
	return text != "/.well-known" && !strings.HasPrefix(text, "/.well-known/")
}

// transportHeaders belong to one connection, or to the transport of the
// specification 2025-11-25 (basic/transports), which the proxy speaks itself.
var transportHeaders = map[string]bool{
	"connection": true, "keep-alive": true, "proxy-authenticate": true, "proxy-authorization": true,
	"proxy-connection": true, "te": true, "trailer": true, "transfer-encoding": true, "upgrade": true,
	"expect": true, "host": true, "accept": true, "accept-encoding": true, "last-event-id": true,
}

func isOwnHeader(name string) bool {
	low := strings.ToLower(name)
	return token.MatchString(name) && name != "*" && !transportHeaders[low] &&
		!strings.HasPrefix(low, "content-") && !strings.HasPrefix(low, "mcp-")
}

// isCallerHeader leaves out names with _: many servers read them as the same
// name with -, so that a client could say one thing twice.
func isCallerHeader(name string) bool {
	return isOwnHeader(name) && !strings.Contains(name, "_")
}

func isForwardHeader(name string) bool {
	return isCallerHeader(name) && !strings.EqualFold(name, "Authorization")
}

func isArgument(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// isCapability takes what a client can be asked: elicitation is the form mode.
func isCapability(text string) bool {
	switch text {
	case "elicitation", "elicitation.url", "sampling", "sampling.tools", "roots":
		return true
	}
	return false
}

func isKey(text string) bool {
	return keyForm.MatchString(text) && strings.Trim(text, "0") != ""
}

// address reports whether the setting is a URL, in which a secret may stand.
func (s *setting) address() bool {
	return s.key == "upstreams[].url" || s.key == "upstreams[].endpoints" || s.key == "bus.url"
}

// shownURLs is shownURL for several with commas between.
func shownURLs(text string) string {
	urls := strings.Split(text, ",")
	for i := range urls {
		urls[i] = shownURL(urls[i])
	}
	return strings.Join(urls, ",")
}

// shownURL leaves out of a URL what is often a secret: the user and the values
// of its query.
func shownURL(text string) string {
	start, query, hasQuery := strings.Cut(text, "?")
	if i := strings.LastIndexByte(start, '@'); i >= 0 {
		scheme, _, ok := strings.Cut(start[:i], "://")
		if ok {
			scheme += "://"
		} else {
			scheme = ""
		}
		start = scheme + Mask + start[i:]
	}
	if !hasQuery {
		return start
	}
	members := strings.Split(query, "&")
	for i, member := range members {
		name, value, _ := strings.Cut(member, "=")
		switch {
		case value != "":
			members[i] = name + "=" + Mask
		case !strings.Contains(member, "="):
			members[i] = Mask
		}
	}
	return start + "?" + strings.Join(members, "&")
}
