package config

import (
	"errors"
	"strings"
	"testing"
)

const goodKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// TestProblems has one case for each kind of mistake: each is named with its
// key, its value, what is allowed and where it came from.
func TestProblems(t *testing.T) {
	twoKeys := "state:\n  keys: [" + goodKey + "]\n  key_file: /keys\n"
	for name, test := range map[string]struct {
		file    string
		environ []string
		args    []string
		want    []string // parts of one problem
	}{
		"unknown key":            {file: "lisen: here:1", want: []string{`lisen: "here:1": unknown key`, "listen", "holdfast.yaml"}},
		"unknown key in section": {file: "calls: {prak_ttl: 1s}", want: []string{`calls.prak_ttl: "1s": unknown key`, "park_ttl", "holdfast.yaml"}},
		"unknown key in list":    {file: "upstreams: [{url: 'http://a'}, {url: 'http://b', name: b, path: /b, uri: x}]", want: []string{"upstreams[1].uri: unknown key", "url"}},
		"wrong case":             {file: "Listen: here:1", want: []string{"Listen", "unknown key"}},
		"dots":                   {file: "calls.timeout: 1s", want: []string{"calls.timeout", "unknown key", "nested"}},
		"value for a section":    {file: "calls: 5m", want: []string{`calls: "5m"`, "want a section", "park_ttl"}},
		"section for a value":    {file: "listen: {a: b}", want: []string{"listen: a section", "want one value"}},
		"value for a list":       {file: "http: {allowed_hosts: a}", want: []string{`http.allowed_hosts: "a"`, "want a list"}},
		"value for upstreams":    {file: "upstreams: 'http://a'", want: []string{"upstreams: want a list of sections"}},
		"value for one upstream": {file: "upstreams: ['http://a']", want: []string{"upstreams[0]: want a section"}},
		"nothing in a list":      {file: "http: {allowed_hosts: [a, ~]}", want: []string{"http.allowed_hosts[1]: nothing", "want one value"}},
		"list in a list":         {file: "http: {allowed_hosts: [[a]]}", want: []string{"http.allowed_hosts[0]: a list", "want one value"}},
		"no upstream in list":    {file: "upstreams: [~]", want: []string{"upstreams[0]: want a section"}},

		"list for a URL": {file: "upstreams: [{url: ['http://a']}]", want: []string{"upstreams[0].url: a list", "want one value"}},

		"bare number for a duration": {file: "http: {read_timeout: 5}", want: []string{`http.read_timeout: "5"`, "duration with its unit", "10ms to 24h"}},
		"zero without unit":          {file: "calls: {gather: 0}", want: []string{`calls.gather: "0"`, "duration with its unit"}},
		"duration too short":         {file: "calls: {timeout: 1ns}", want: []string{"calls.timeout: 1ns", "10ms to 24h", "holdfast.yaml"}},
		"duration too long":          {args: []string{"--calls.timeout", "25h"}, want: []string{"calls.timeout: 25h", "10ms to 24h", "(--calls.timeout)"}},
		"negative duration":          {environ: []string{"HOLDFAST_CALLS__TIMEOUT=-1s"}, want: []string{"calls.timeout: -1s", "(HOLDFAST_CALLS__TIMEOUT)"}},
		"text for a number":          {environ: []string{"HOLDFAST_CALLS__MAX=many"}, want: []string{`calls.max: "many"`, "whole number", "1 to 10000000", "(HOLDFAST_CALLS__MAX)"}},
		"fraction":                   {file: "calls: {max: 1.5}", want: []string{`calls.max: "1.5"`, "whole number"}},
		"octal":                      {file: "calls: {max: 010}", want: []string{`calls.max: "010"`, "whole number"}},
		"huge number":                {file: "calls: {max: 99999999999999999999}", want: []string{"calls.max", "whole number"}},
		"number too small":           {file: "http: {max_depth: 7}", want: []string{"http.max_depth: 7", "8 to 1000"}},
		"size unit":                  {file: "http: {max_body: 4MB}", want: []string{`http.max_body: "4MB"`, "4MiB", "1KiB to 1GiB"}},
		"size too large":             {file: "http: {max_body: 2GiB}", want: []string{"http.max_body: 2GiB", "1KiB to 1GiB"}},
		"no boolean":                 {file: "upstreams: [{url: 'http://a', pushes_on_get: yes}]", want: []string{`upstreams[0].pushes_on_get: "yes"`, "true, false"}},
		"word":                       {args: []string{"--log-level", "loud"}, want: []string{`log.level: "loud"`, "trace, debug, info, warn, error", "(--log-level)"}},
		"empty variable":             {environ: []string{"HOLDFAST_LISTEN="}, want: []string{`listen: ""`, "host:port", "(HOLDFAST_LISTEN)"}},
		"address":                    {args: []string{"--listen", "8080"}, want: []string{`listen: "8080"`, "host:port"}},
		"control character":          {environ: []string{"HOLDFAST_STATE__KEY_FILE=a\nb"}, want: []string{`state.key_file: "a\nb"`, "control characters"}},
		"invalid UTF-8":              {environ: []string{"HOLDFAST_STATE__KEY_FILE=a\xff"}, want: []string{`state.key_file: "a\xff"`, "UTF-8"}},

		"no URL":               {file: "upstreams: [{name: a}]", want: []string{`upstreams[0].url: ""`, "absolute http or https URL", "holdfast.yaml"}},
		"relative URL":         {args: []string{"--upstream", "localhost:3001/mcp"}, want: []string{`upstreams[0].url: "localhost:3001/mcp"`, "absolute http", "(--upstream)"}},
		"URL scheme":           {environ: []string{"HOLDFAST_UPSTREAM=ftp://a/b"}, want: []string{`upstreams[0].url: "ftp://a/b"`, "(HOLDFAST_UPSTREAM)"}},
		"URL fragment":         {args: []string{"--upstream", "http://a/#b"}, want: []string{"upstreams[0].url", "fragment"}},
		"URL user":             {args: []string{"--upstream", "http://me:pw@a/"}, want: []string{"upstreams[0].url", "http://" + Mask + "@a/", "without user"}},
		"upstream name":        {file: "upstreams: [{name: A b, url: 'http://a'}]", want: []string{`upstreams[0].name: "A b"`, "a-z"}},
		"same name":            {file: "upstreams: [{url: 'http://a'}, {url: 'http://b', path: /b}]", want: []string{`upstreams[1].name: "default"`, "upstreams[0]", "holdfast.yaml"}},
		"same path":            {file: "upstreams: [{url: 'http://a'}, {url: 'http://b', name: b}]", want: []string{`upstreams[1].path: "/mcp"`, "upstreams[0]"}},
		"relative path":        {file: "upstreams: [{url: 'http://a', path: mcp}]", want: []string{`upstreams[0].path: "mcp"`, "absolute path"}},
		"well-known path":      {file: "upstreams: [{url: 'http://a', path: /.well-known/mcp}]", want: []string{"upstreams[0].path", "/.well-known"}},
		"header name":          {file: "upstreams: [{url: 'http://a', headers: {'X Y': z}}]", want: []string{`upstreams[0].headers."X Y": allowed: header names`}},
		"header of transport":  {file: "upstreams: [{url: 'http://a', headers: {Host: z}}]", want: []string{"upstreams[0].headers.Host: allowed: header names (not Host"}},
		"header value":         {file: "upstreams: [{url: 'http://a', headers: {X: \"a\\nb\"}}]", want: []string{"upstreams[0].headers.X", "control characters"}},
		"header without value": {file: "upstreams: [{url: 'http://a', headers: {X: }}]", want: []string{"upstreams[0].headers.X", "want one value"}},
		"header twice":         {file: "upstreams: [{url: 'http://a', headers: {X-A: 1, x-a: 2}}]", want: []string{"upstreams[0].headers.x-a", "twice"}},
		"forwarded header":     {file: "upstreams: [{url: 'http://a', forward_headers: [Mcp-Name]}]", want: []string{`upstreams[0].forward_headers[0]: "Mcp-Name"`, "Mcp-*"}},
		"forwarded twice":      {file: "upstreams: [{url: 'http://a', forward_headers: [A, a]}]", want: []string{`upstreams[0].forward_headers[1]: "a"`, "twice"}},
		"forwarded and own":    {file: "upstreams: [{url: 'http://a', headers: {A: b}, forward_headers: [a]}]", want: []string{"upstreams[0].forward_headers[0]", "headers too"}},
		"upstream in two places": {file: "upstreams: [{url: 'http://a'}]", args: []string{"--upstream", "http://b"},
			want: []string{"--upstream", "the file has upstreams; use one of the two"}},
		"bus without a key":     {args: []string{"--upstream", "http://a", "--bus-url", "nats://a"}, want: []string{"state.key_file", "the same keys"}},
		"cluster without a key": {args: []string{"--upstream", "http://a", "--cluster-listen", "127.0.0.1:1", "--bus.cluster.tls.ca", "a"}, want: []string{"state.key_file", "the same keys"}},
		"upstream variable and file": {file: "upstreams: [{url: 'http://a'}]", environ: []string{"HOLDFAST_UPSTREAM=http://b"},
			want: []string{"HOLDFAST_UPSTREAM", "the file has upstreams; use one of the two"}},

		"origin":                  {file: "http: {allowed_origins: [app.example]}", want: []string{`http.allowed_origins[0]: "app.example"`, "scheme://host"}},
		"host":                    {args: []string{"--http.allowed-hosts", "a,http://b"}, want: []string{`http.allowed_hosts[1]: "http://b"`, "a host", "(--http.allowed-hosts)"}},
		"principal header":        {args: []string{"--principal.header", "X User"}, want: []string{`principal.header: "X User"`, "a header name"}},
		"keys and key file":       {file: twoKeys, want: []string{`state.key_file: "/keys"`, "state.keys", "one of the two"}},
		"keys here and there":     {file: "state: {keys: [" + goodKey + "]}", args: []string{"--state-key-file", "/k"}, want: []string{`state.key_file: "/k"`, "(--state-key-file)"}},
		"short key":               {environ: []string{"HOLDFAST_STATE__KEYS=" + goodKey + ",abc"}, want: []string{"state.keys[1]", "64 hexadecimal digits", "(HOLDFAST_STATE__KEYS)"}},
		"zero key":                {file: "state: {keys: ['" + strings.Repeat("0", 64) + "']}", want: []string{"state.keys[0]", "not all zero"}},
		"too many keys":           {environ: []string{"HOLDFAST_STATE__KEYS=" + strings.Repeat(goodKey+",", 65)}, want: []string{"state.keys", "at most 64"}},
		"same address":            {args: []string{"--admin", "127.0.0.1:8080"}, want: []string{`admin: "127.0.0.1:8080"`, "differ from listen"}},
		"retries":                 {args: []string{"--upstream.retry-min", "11s"}, want: []string{"upstream.retry_min: 11s", "upstream.retry_max", "10s", "(--upstream.retry-min)"}},
		"masked key":              {file: "state: {keys: ['" + Mask + "']}", want: []string{"state.keys[0]", "masked"}},
		"masked header":           {file: "upstreams: [{url: 'http://a', headers: {X: '" + Mask + "'}}]", want: []string{"upstreams[0].headers.X", "masked"}},
		"masked query":            {args: []string{"--upstream", "http://a/?key=" + Mask}, want: []string{"upstreams[0].url", "masked"}},
		"unknown variable":        {environ: []string{"HOLDFAST_CALLS__PRAK_TTL=s3cret"}, want: []string{"HOLDFAST_CALLS__PRAK_TTL: unknown variable"}},
		"variable for a section":  {environ: []string{"HOLDFAST_CALLS=x"}, want: []string{"HOLDFAST_CALLS: unknown variable"}},
		"single underscore":       {environ: []string{"HOLDFAST_STATE_KEY_FILE=s3cret"}, want: []string{"HOLDFAST_STATE_KEY_FILE: unknown variable", "HOLDFAST_STATE__KEY_FILE exists"}},
		"lower-case variable":     {environ: []string{"HOLDFAST_listen=x"}, want: []string{"HOLDFAST_listen: unknown variable", "HOLDFAST_LISTEN exists"}},
		"flag and its short form": {args: []string{"--log-level", "info", "--log.level", "warn"}, want: []string{"--log.level", "the same as --log-level"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, test.file, test.environ, test.args...)
			var wrong *Error
			if !errors.As(err, &wrong) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if len(wrong.Problems) != 1 {
				t.Fatalf("got %d problems, want 1: %v", len(wrong.Problems), err)
			}
			for _, want := range test.want {
				if !strings.Contains(wrong.Problems[0].String(), want) {
					t.Errorf("got %q, want %q in it", wrong.Problems[0], want)
				}
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := load(t, "lisen: a\ncalls: {timeout: 5, max: 0}\nupstreams: [{url: a}]",
		[]string{"HOLDFAST_NONE=1"}, "--log-level", "loud")
	if err == nil {
		t.Fatal("loaded")
	}
	for _, want := range []string{"6 are wrong", "lisen", "calls.timeout", "calls.max", "upstreams[0].url", "HOLDFAST_NONE", "log.level"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

// TestProblemsKeepSecrets has a secret in every place where a mistake may put
// one.
func TestProblemsKeepSecrets(t *testing.T) {
	const secret = "s3cret"
	for _, file := range []string{
		"state: {keys: [" + secret + "]}",
		"state: {keys: " + secret + "}",
		"state: {keys: [[" + secret + "]]}",
		"state: {kyes: " + secret + "}",
		"state: " + secret,
		"state_keys: " + secret,
		"state.keys: " + secret,
		"upstreams: " + secret,
		"upstreams: [" + secret + "]",
		"upstreams: [{url: 'http://" + secret + "@a'}]",
		"upstreams: [{url: 'http://me:" + secret + "@a'}]",
		"upstreams: [{url: 'me:" + secret + "@a'}]",
		"upstreams: [{url: 'ftp://a/?token=" + secret + "'}]",
		"upstreams: [{url: 'ftp://a/?" + secret + "'}]",
		"upstreams: [{url: 'http://a', headers: {X: \"" + secret + "\\n\"}}]",
		"upstreams: [{url: 'http://a', headers: {X: [" + secret + "]}}]",
		"upstreams: [{url: 'http://a', headers: " + secret + "}]",
		"upstreams: [{url: 'http://a', heders: " + secret + "}]",
		"upstreams: [{url: 'http://a', headers: {Host: " + secret + "}}]",
		"state: {keys: [" + secret + ", " + secret + "]}",
	} {
		_, err := load(t, file, nil)
		if err == nil {
			t.Errorf("%q loaded", file)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: the error shows the secret: %v", file, err)
		}
	}
	_, err := load(t, "", []string{"HOLDFAST_STATE_KEYS=" + secret})
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("unknown variable: got %v, want an error without its value", err)
	}
}
