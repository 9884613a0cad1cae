package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/cmd/internal/modern"
)

// callTrace shows what goes over the wire. It implements modern.Tracer.
type callTrace struct {
	out   io.Writer
	lines int // of a body; zero means all
	sent  time.Time
}

// Longest texts that the trace shows whole.
const (
	shownState = 24
	shownText  = 400
)

// Request implements modern.Tracer.
func (t *callTrace) Request(r *http.Request, body []byte) {
	t.sent = time.Now()
	t.printf("\n→ POST %s\n", r.URL.Redacted())
	t.headers(r.Header)
	t.json(body)
}

// Response implements modern.Tracer.
func (t *callTrace) Response(r *http.Response) {
	t.printf("\n← %s (after %v)\n", plain(r.Status), t.since())
	t.headers(r.Header)
}

// Body implements modern.Tracer.
func (t *callTrace) Body(data []byte) { t.json(data) }

// Event implements modern.Tracer.
func (t *callTrace) Event(e modern.Event) {
	if e.Comment {
		t.printf("  SSE comment (after %v) %s\n", t.since(), oneLine(string(e.Data)))
		return
	}
	t.printf("  SSE event (after %v)", t.since())
	if e.Name != "" && e.Name != "message" {
		t.printf(" %s", oneLine(e.Name))
	}
	t.printf("\n")
	t.json(e.Data)
}

func (t *callTrace) printf(format string, args ...any) { _, _ = fmt.Fprintf(t.out, format, args...) }

func (t *callTrace) since() time.Duration { return time.Since(t.sent).Round(time.Millisecond) }

// headers shows headers by name. Credentials are not shown.
func (t *callTrace) headers(header http.Header) {
	var names []string
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range header[name] {
			if secretHeader(name) {
				value = "(not shown)"
			}
			t.printf("  %s: %s\n", oneLine(name), oneLine(value))
		}
	}
}

func secretHeader(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"authorization", "cookie", "token", "secret", "api-key", "apikey"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// json shows a body with its members one below the other. The request state
// and other long texts are shortened, and so is a long body.
func (t *callTrace) json(data []byte) {
	if len(data) == 0 {
		return
	}
	text, err := readable(data)
	if err != nil {
		text = shorten(string(data), shownText)
	}
	lines := strings.Split(strings.TrimRight(plain(text), "\n"), "\n")
	left := 0
	if t.lines > 0 && len(lines) > t.lines {
		left = len(lines) - t.lines
		lines = lines[:t.lines]
	}
	for _, line := range lines {
		t.printf("    %s\n", line)
	}
	if left > 0 {
		t.printf("    … %d more lines (--trace-lines 0 shows all)\n", left)
	}
}

// readable indents JSON and shortens its long texts.
func readable(data []byte) (string, error) {
	var out bytes.Buffer
	decoder := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	encoder := jsontext.NewEncoder(&out, jsontext.Multiline(true), jsontext.WithIndent("  "),
		jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	name := "" // of the member whose value comes next
	for {
		token, err := decoder.ReadToken()
		if err == io.EOF {
			return out.String(), nil
		} else if err != nil {
			return "", err
		}
		inObject, length := decoder.StackIndex(decoder.StackDepth())
		isName := inObject == '{' && length%2 == 1 && token.Kind() == '"'
		if token.Kind() == '"' && !isName {
			most := shownText
			if name == "requestState" {
				most = shownState
			}
			token = jsontext.String(shorten(token.String(), most))
		}
		if name = ""; isName {
			name = token.String()
		}
		if err := encoder.WriteToken(token); err != nil {
			return "", err
		}
	}
}

// shorten keeps a text's beginning and says how long it was.
func shorten(text string, most int) string {
	if len(text) <= most+len("… (1000 bytes)") {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:most], ""), len(text))
}
