package config

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestForms(t *testing.T) {
	for name, texts := range map[string]struct{ good, bad []string }{
		"address": {
			[]string{"127.0.0.1:8080", ":80", "[::1]:0", "[fe80::1%eth0]:1", "localhost:65535", "0.0.0.0:1"},
			[]string{"", "8080", "localhost", "localhost:http", "localhost:65536", "a b:1", "::1:80", "[x:y]:80", "a:-1", "a:+1", "a:080"},
		},
		"address?": {[]string{"", ":1"}, []string{":"}},
		"name":     {[]string{"a", "a-1", strings.Repeat("a", 63)}, []string{"", "A", "a_b", "ä", strings.Repeat("a", 64), "a\n"}},
		"url":      {[]string{"http://a"}, []string{"", "a"}},
		"url?": {
			[]string{"", "http://a", "https://a.b:1/c?d=e", "http://[::1]:3001/mcp", "http://a_b/x"},
			[]string{"a", "/a", "//a", "http://", "http:///a", "http://:80/", "http:a", "ftp://a", "http://u@a", "http://@a", "http://a#", "http://a#b", "http://a:x", "http://a:99999", "http://a:*", "http://*", "http://a b", " http://a", "unix:/x"},
		},
		"path": {
			[]string{"/", "/mcp", "/a/b-c_d.e~f", "/.well", "/.well-knownish"},
			[]string{"", "mcp", "/a/", "//", "/a//b", "/a/../b", "/./a", "/a%20b", "/a b", "/a?b", "/a#b", "/ä", "/.well-known", "/.well-known/x"},
		},
		"headers": {
			[]string{"X-A", "authorization", "X_A", "Cookie"},
			[]string{"", "X A", "X:", "Host", "content-length", "Content-X", "MCP-Session-Id", "Accept", "Connection", "TE", "transfer-encoding", "Last-Event-ID", "ä"},
		},
		"forward": {[]string{"X-A", "Cookie"}, []string{"", "Authorization", "authorization", "X_A", "Mcp-Name", "Host", "*"}},
		"header?": {[]string{"", "X-A", "Authorization"}, []string{"X_A", "X A", "Mcp-Name"}},
		"origin": {
			[]string{"*", "http://localhost", "http://localhost:*", "https://app.example:8443", "http://[::1]:*", "chrome-extension://abc"},
			[]string{"", "null", "localhost", "http://", "http://a/", "http://a/b", "http://*", "http://a:x", "http://[a]", "1://a", "https://*.example"},
		},
		"host": {
			[]string{"*", "localhost", "a.example:8080", "a:*", "127.0.0.1", "[::1]", "[::1]:80", "[::1]:*"},
			[]string{"", "::1", "[]", "[::1", "[::1]x", "a/b", "http://a", "a:b", ":80", "*.example", "a b"},
		},
		"argument":  {[]string{"", "a b", "a\nb", "--key=ä"}, []string{"a\x00", "a\xff"}},
		"variables": {[]string{"A", "a_b", "npm_config_//a.b/:x"}, []string{"", "A=b", "A B", "A\n", "\xff"}},
		"key": {
			[]string{goodKey, strings.ToUpper(goodKey)},
			[]string{"", goodKey[1:], goodKey + "0", strings.Repeat("g", 64), strings.Repeat("0", 64), goodKey + "\n"},
		},
	} {
		for _, text := range texts.good {
			if !forms[name].fits(text) {
				t.Errorf("%s: %q is refused", name, text)
			}
		}
		for _, text := range texts.bad {
			if forms[name].fits(text) {
				t.Errorf("%s: %q is accepted", name, text)
			}
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "4096": 4096, "512KiB": 512 << 10, "4MiB": 4 << 20, "1GiB": 1 << 30, "2TiB": 2 << 40,
		"9223372036854775807": math.MaxInt64, "8388607TiB": 8388607 << 40,
	} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q = %d, %v; want %d", text, got, err, want)
		}
		var again Size
		if err := again.UnmarshalText([]byte(want.String())); err != nil || again != want {
			t.Errorf("%d prints as %q, which is %d, %v", want, want, again, err)
		}
	}
	for _, text := range []string{
		"", "-1", "+1", "4MB", "4M", "4 MiB", "1.5MiB", "MiB", "4mib", "4MiBMiB", "0x10", "010", "1_000", "1e3",
		"9223372036854775808", "8388608TiB", "-1KiB",
	} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is accepted as %d", text, got)
		}
	}
}

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Millisecond: "1ms", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", time.Hour: "1h",
		90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s", -time.Minute: "-1m",
	} {
		got := durationText(d)
		if again, ok := parseDuration(got); got != want || !ok || again != d {
			t.Errorf("%v prints as %q and reads as %v; want %q", d, got, again, want)
		}
	}
	for _, text := range []string{"", "5", "0", "+0", "s", "5 s", "1d", "1h30"} {
		if d, ok := parseDuration(text); ok {
			t.Errorf("%q is accepted as %v", text, d)
		}
	}
}

func TestHosts(t *testing.T) {
	local := []string{"localhost", "127.0.0.1", "[::1]"}
	for listen, more := range map[string]string{
		"127.0.0.1:1": "", "localhost:1": "", "LOCALHOST:1": "", "[::1]:1": "", ":1": "", "0.0.0.0:1": "", "[::]:1": "",
		"10.0.0.7:1": "10.0.0.7", "box.lan:1": "box.lan", "[fe80::1%eth0]:1": "[fe80::1]",
	} {
		want := slices.Clone(local)
		if more != "" {
			want = append(want, more)
		}
		if got := (&Config{Listen: listen}).Hosts(); !slices.Equal(got, want) {
			t.Errorf("listen %s: got %q, want %q", listen, got, want)
		}
	}
	c := &Config{Listen: "10.0.0.7:1", HTTP: HTTP{AllowedHosts: []string{"a"}}}
	if got := c.Hosts(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %q, want http.allowed_hosts alone", got)
	}
}
