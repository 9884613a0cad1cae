package config

import (
	"net"
	"strings"
)

// localHosts are the names of the local machine in Host headers.
var localHosts = []string{"localhost", "127.0.0.1", "[::1]"}

// Hosts are the names in Host that are served: http.allowed_hosts, or, where it
// is empty, those of the local machine and the host of listen unless that is a
// wildcard.
func (c *Config) Hosts() []string {
	if len(c.HTTP.AllowedHosts) > 0 {
		return c.HTTP.AllowedHosts
	}
	hosts := append([]string(nil), localHosts...)
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil || host == "" || net.ParseIP(host) != nil && net.ParseIP(host).IsUnspecified() {
		return hosts
	}
	if strings.Contains(host, ":") {
		host, _, _ = strings.Cut(host, "%") // RFC 6874, 1: a zone means nothing to others
		host = "[" + host + "]"
	}
	for _, h := range hosts {
		if strings.EqualFold(h, host) {
			return hosts
		}
	}
	return append(hosts, host)
}
