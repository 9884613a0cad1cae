package config

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// load loads a file's text (none when empty) with variables and flags.
func load(t *testing.T, text string, environ []string, args ...string) (*Config, error) {
	t.Helper()
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	AddFlags(fs)
	if text != "" {
		args = append([]string{"--config", write(t, text)}, args...)
	}
	if err := fs.Parse(args); err != nil {
		t.Fatalf("parse %q: %v", args, err)
	}
	return Load(fs, environ)
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustLoad(t *testing.T, text string, environ []string, args ...string) *Config {
	t.Helper()
	c, err := load(t, text, environ, args...)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return c
}

func TestNothingGivenMeansDefaults(t *testing.T) {
	for _, text := range []string{"", "# only a comment\n", "---\n", "calls:\nlisten:\nhttp: ~\n"} {
		if c := mustLoad(t, text, nil); !reflect.DeepEqual(c, Defaults()) {
			t.Errorf("file %q: got %+v, want the defaults", text, c)
		}
	}
}

func TestPrecedence(t *testing.T) {
	file := "calls:\n  park_ttl: 2m\n  max: 7\nlisten: file:1\nhttp:\n  allowed_hosts: [file]\n"
	environ := []string{"HOLDFAST_CALLS__PARK_TTL=3m", "HOLDFAST_LISTEN=environ:2", "PATH=/bin", "HOLDFAST_HTTP__ALLOWED_HOSTS=a, b"}

	c := mustLoad(t, file, nil)
	if c.Calls.ParkTTL != 2*time.Minute || c.Calls.Max != 7 || c.Listen != "file:1" {
		t.Errorf("the file must win over the defaults: got %+v", c)
	}
	if c.Calls.Timeout != Defaults().Calls.Timeout {
		t.Errorf("calls.timeout = %v, want the default beside the file's other values", c.Calls.Timeout)
	}
	c = mustLoad(t, file, environ)
	if c.Calls.ParkTTL != 3*time.Minute || c.Calls.Max != 7 || c.Listen != "environ:2" {
		t.Errorf("the environment must win over the file: got %+v", c)
	}
	if got := strings.Join(c.HTTP.AllowedHosts, " "); got != "a b" {
		t.Errorf("http.allowed_hosts = %q, want the environment's list alone", got)
	}
	c = mustLoad(t, file, environ, "--calls.park-ttl", "4m", "--listen=flag:3", "--http.allowed-hosts", "c")
	if c.Calls.ParkTTL != 4*time.Minute || c.Calls.Max != 7 || c.Listen != "flag:3" {
		t.Errorf("flags must win over the environment: got %+v", c)
	}
	if got := strings.Join(c.HTTP.AllowedHosts, " "); got != "c" {
		t.Errorf("http.allowed_hosts = %q, want the flag's list alone", got)
	}
}

func TestShortFlags(t *testing.T) {
	c := mustLoad(t, "", nil, "--log-level", "debug", "--log-format", "console", "--state-key-file", "/keys", "--admin", ":9")
	if c.Log != (Log{Level: "debug", Format: FormatConsole}) || c.State.KeyFile != "/keys" || c.Admin != ":9" {
		t.Errorf("got %+v", c)
	}
}

func TestFileFromTheEnvironment(t *testing.T) {
	first, second := write(t, "listen: first:1"), write(t, "listen: second:2")
	if c := mustLoad(t, "", []string{"HOLDFAST_CONFIG=" + first}); c.Listen != "first:1" {
		t.Errorf("HOLDFAST_CONFIG: listen = %q", c.Listen)
	}
	if c := mustLoad(t, "", []string{"HOLDFAST_CONFIG=" + first}, "--config", second); c.Listen != "second:2" {
		t.Errorf("--config over HOLDFAST_CONFIG: listen = %q", c.Listen)
	}
}

func TestMissingFile(t *testing.T) {
	_, err := load(t, "", nil, "--config", filepath.Join(t.TempDir(), "none.yaml"))
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("got %v, want an error that names the missing file", err)
	}
}

func TestOneUpstream(t *testing.T) {
	want := DefaultUpstream()
	want.URL = "http://127.0.0.1:3001/mcp"
	for name, c := range map[string]*Config{
		"flag":                 mustLoad(t, "", nil, "--upstream", want.URL),
		"variable":             mustLoad(t, "", []string{"HOLDFAST_UPSTREAM=" + want.URL}),
		"flag over variable":   mustLoad(t, "", []string{"HOLDFAST_UPSTREAM=http://other/mcp"}, "--upstream", want.URL),
		"beside an empty list": mustLoad(t, "upstreams: []", nil, "--upstream", want.URL),
		"in the file":          mustLoad(t, "upstreams: [{url: '"+want.URL+"'}]", nil),
	} {
		if !reflect.DeepEqual(c.Upstreams, []Upstream{want}) {
			t.Errorf("%s: got %+v, want %+v", name, c.Upstreams, want)
		}
	}
}

func TestSeveralUpstreams(t *testing.T) {
	c := mustLoad(t, `
upstreams:
  - name: files
    url: http://127.0.0.1:3001/mcp
    path: /files
    headers: {X-Api-Key: "123", Authorization: Bearer x}
    forward_headers: [X-Request-Id]
    pushes_on_get: true
  - {name: mail, url: "https://[::1]:8443", path: /mail, cache: {ttl: 5m, scope: public}}
`, nil)
	want := []Upstream{
		{
			Name: "files", URL: "http://127.0.0.1:3001/mcp", Protocol: ProtocolAuto, Path: "/files",
			Headers:        map[string]string{"X-Api-Key": "123", "Authorization": "Bearer x"},
			ForwardHeaders: []string{"X-Request-Id"},
			Transport:      TransportAuto, Dialect: DialectMRTR,
			Cache: Cache{Scope: ScopePrivate}, PushesOnGET: true,
		},
		{Name: "mail", URL: "https://[::1]:8443", Transport: TransportAuto, Protocol: ProtocolAuto, Path: "/mail", Dialect: DialectMRTR, Cache: Cache{TTL: 5 * time.Minute, Scope: ScopePublic}},
	}
	if !reflect.DeepEqual(c.Upstreams, want) {
		t.Errorf("got  %+v\nwant %+v", c.Upstreams, want)
	}
}

func TestEverySettingHasItsVariableAndFlag(t *testing.T) {
	// One value that is allowed and differs from the default, by kind or key.
	other := func(s *setting) string {
		switch {
		case s.key == "state.keys":
			return strings.Repeat("ab", 32)
		case s.key == "http.allowed_origins":
			return "https://app.example"
		case s.form != nil && s.form.want == forms["header?"].want:
			return "X-User"
		case s.form != nil && s.form.want == forms["name"].want:
			return "other"
		case s.form != nil && s.form.want == forms["nats?"].want:
			return "nats://a:4222,tls://b"
		case s.kind == kindSwitch && s.fallback == "true":
			return "false"
		case s.kind == kindSwitch:
			return "true"
		case s.form != nil && s.form.want == forms["capability"].want:
			return "roots"
		case s.key == "bus.owner_timeout":
			return "42s"
		case s.form != nil || s.kind == kindText && len(s.words) == 0:
			return "127.0.0.1:1"
		case len(s.words) > 0 && s.words[0] != s.fallback:
			return s.words[0]
		case len(s.words) > 0:
			return s.words[1]
		case s.kind == kindDuration:
			return "42ms"
		case s.kind == kindSize:
			return "1048577"
		default:
			return "42"
		}
	}
	schema().leaves(func(s *setting) {
		if !s.single() {
			return
		}
		value := other(s)
		args := append([]string{"--state.max-bytes", "4096"}, beside[s.key]...)
		if s.key == "state.max_bytes" || s.key == "http.max_header" || s.key == "upstream.max_line" {
			value, args = "5000", nil
		}
		if s.key == "upstream.retry_max" || s.key == "stdio.restart_max" || s.key == "stream.after" {
			value = "9m"
		}
		c, err := load(t, "", []string{s.variable() + "=" + value}, args...)
		if err != nil {
			t.Errorf("%s=%s: %v", s.variable(), value, err)
		} else if reflect.DeepEqual(c, mustLoad(t, "", nil, args...)) {
			t.Errorf("%s=%s has no effect", s.variable(), value)
		}
		if s.secret {
			if s.flag() != "" {
				t.Errorf("%s is a secret and has the flag %s", s.key, s.flag())
			}
			return
		}
		byFlag, err := load(t, "", nil, append([]string{"--" + s.flag(), value}, args...)...)
		if err != nil {
			t.Errorf("--%s %s: %v", s.flag(), value, err)
		} else if !reflect.DeepEqual(byFlag, c) {
			t.Errorf("--%s and %s set different things", s.flag(), s.variable())
		}
	})
}

// beside is what settings cannot be without.
var beside = map[string][]string{
	"bus.url":              {"--state-key-file", "k"},
	"bus.credentials_file": {"--bus.url", "nats://a", "--state-key-file", "k"},
	"bus.nkey_file":        {"--bus.url", "nats://a", "--state-key-file", "k"},
	"bus.token":            {"--bus.url", "nats://a", "--state-key-file", "k"},
	"bus.cluster.listen":   {"--bus.cluster.tls.ca", "a", "--state-key-file", "k"},
	"bus.cluster.peers":    {"--bus.cluster.tls.ca", "a", "--bus.cluster.listen", "127.0.0.1:2", "--state-key-file", "k"},
}

func TestAFlagOfAListCanBeRepeated(t *testing.T) {
	c := mustLoad(t, "", nil, "--state-key-file", "k", "--cluster-listen", "a:1", "--bus.cluster.tls.ca", "f", "--cluster-peer", "a:1", "--cluster-peer", "b:1,c:1")
	if got, want := c.Bus.Cluster.Peers, []string{"a:1", "b:1", "c:1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestServiceLinksAreNotSettings(t *testing.T) {
	for _, variable := range []string{
		"HOLDFAST_SERVICE_HOST=10.0.0.1", "HOLDFAST_SERVICE_PORT=8080", "HOLDFAST_SERVICE_PORT_HTTP=8080",
		"HOLDFAST_PORT=tcp://10.0.0.1:8080", "HOLDFAST_PORT_8080_TCP=tcp://10.0.0.1:8080",
		"HOLDFAST_PORT_8080_TCP_PROTO=tcp", "HOLDFAST_PORT_8080_TCP_PORT=8080", "HOLDFAST_PORT_8080_TCP_ADDR=10.0.0.1",
		"HOLDFAST_ADMIN_SERVICE_HOST=10.0.0.1", "HOLDFAST_ADMIN_PORT=tcp://10.0.0.1:9090",
	} {
		if c := mustLoad(t, "", []string{variable}); !reflect.DeepEqual(c, Defaults()) {
			t.Errorf("%s changed the settings", variable)
		}
	}
}

func TestEndpoints(t *testing.T) {
	c := mustLoad(t, `upstreams: [{url: "http://a/mcp", endpoints: ["http://b/mcp?key=hidden1"], protocol: modern}]`, nil)
	if u := c.Upstreams[0]; len(u.Endpoints) != 1 || u.Protocol != ProtocolModern {
		t.Errorf("got %+v", u)
	}
	if text, err := c.YAML(); err != nil || strings.Contains(string(text), "hidden1") || !strings.Contains(string(text), "http://b/mcp") {
		t.Errorf("printed as %s, %v", text, err)
	}
	for _, endpoints := range []string{`["http://a/mcp"]`, `["http://b/mcp", "http://b/mcp"]`} {
		_, err := load(t, `upstreams: [{url: "http://a/mcp", endpoints: `+endpoints+`}]`, nil)
		if err == nil || !strings.Contains(err.Error(), "is there twice") {
			t.Errorf("%s: %v", endpoints, err)
		}
	}
}
