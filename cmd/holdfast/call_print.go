package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/cmd/internal/modern"
)

// callPrinter shows results on out and everything else on notes.
type callPrinter struct {
	out, notes io.Writer
	raw        bool // results as the JSON that came
	guard      bool // out is a terminal: control characters of the server must not reach it
}

func (p callPrinter) note(format string, args ...any) {
	_, _ = fmt.Fprintf(p.notes, "note: %s\n", plain(fmt.Sprintf(format, args...)))
}

func (p callPrinter) print(text string) {
	if p.guard {
		text = plain(text)
	}
	_, _ = fmt.Fprintln(p.out, strings.TrimSuffix(text, "\n"))
}

// Progress implements modern.Listener.
func (p callPrinter) Progress(progress modern.Progress) {
	text := fmt.Sprintf("progress: %v", progress.Progress)
	if progress.Total != nil {
		text += fmt.Sprintf(" of %v", *progress.Total)
	}
	if progress.Message != "" {
		text += ": " + oneLine(progress.Message)
	}
	_, _ = fmt.Fprintln(p.notes, text)
}

// Log implements modern.Listener.
func (p callPrinter) Log(m modern.LogMessage) {
	text, ok := modern.Text(m.Data)
	if !ok {
		text = compact(m.Data)
	}
	logger := ""
	if m.Logger != "" {
		logger = " " + oneLine(m.Logger)
	}
	_, _ = fmt.Fprintf(p.notes, "log %s%s: %s\n", oneLine(m.Level), logger, plain(text))
}

// Waiting implements modern.Listener.
func (p callPrinter) Waiting(pause time.Duration) {
	p.note("the server asks nothing and wants the call again; next try in %v", pause)
}

// discovery shows the answer to server/discover.
func (p callPrinter) discovery(d modern.Discovery) {
	if p.raw {
		p.print(string(d.Raw))
		return
	}
	p.print("server: " + serverName(d.Server))
	p.print("revisions: " + strings.Join(d.Versions, ", "))
	p.print("capabilities: " + compact(d.Capabilities))
	if d.Instructions != "" {
		p.print("instructions:\n" + indented(d.Instructions))
	}
}

func serverName(s modern.ServerInfo) string {
	name := strings.TrimSpace(oneLine(s.Name) + " " + oneLine(s.Version))
	if s.Title != "" {
		name += " (" + oneLine(s.Title) + ")"
	}
	if name == "" {
		return "(does not say)"
	}
	return name
}

// tools lists tools with their arguments.
func (p callPrinter) tools(list modern.ToolList) {
	if p.raw {
		p.print(string(modern.Object(modern.Member{Name: "tools", Value: modern.Array(list.Raw...)})))
		return
	}
	for _, tool := range list.Tools {
		p.print(oneLine(tool.Name) + argumentsText(tool.InputSchema))
		if tool.Description != "" {
			p.print("    " + strings.ReplaceAll(strings.TrimSpace(tool.Description), "\n", "\n    "))
		}
	}
}

// argumentsText writes a schema's properties as NAME=type, optional ones in
// brackets.
func argumentsText(schema jsontext.Value) string {
	fields, err := readForm(schema)
	if err != nil {
		return " …"
	}
	var text strings.Builder
	for _, f := range fields {
		kind := f.Type
		if kind == "" {
			kind = "any"
		}
		word := oneLine(f.name) + "=" + kind
		if !f.required {
			word = "[" + word + "]"
		}
		text.WriteString(" " + word)
	}
	return text.String()
}

// result shows a tool's result: its content, then its structured content.
func (p callPrinter) result(r modern.Result) {
	if p.raw {
		p.print(string(r.Raw))
		return
	}
	for _, block := range r.Content {
		text := blockText(block)
		// Servers repeat structured content as a text, for older clients.
		if r.Structured != nil && sameJSON(text, r.Structured) {
			continue
		}
		p.print(text)
	}
	if r.Structured != nil {
		pretty := r.Structured.Clone()
		if pretty.Indent(jsontext.WithIndent("  "), jsontext.AllowInvalidUTF8(true)) != nil {
			pretty = r.Structured
		}
		p.print(string(pretty))
	}
}

// outcome tells how the run ended, and its exit code.
func (p callPrinter) outcome(err error) int {
	if err == nil {
		return callDone
	}
	_, _ = fmt.Fprintf(p.notes, "holdfast call: %s\n", plain(err.Error()))
	var refused *modern.RPCError
	var status *modern.HTTPError
	switch {
	case errors.Is(err, errToolFailed):
		return callToolError
	case errors.Is(err, errMisused), errors.Is(err, errUnanswered):
		return callMisused
	case errors.As(err, &refused):
		if data := otherData(refused.Data); data != "" {
			_, _ = fmt.Fprintf(p.notes, "  data: %s\n", plain(data))
		}
		return callRPCError
	case errors.As(err, &status):
		switch status.Status {
		case 400, 404, 405, 406:
			// Spec, basic/transports/streamable-http, "Backward Compatibility".
			_, _ = fmt.Fprintln(p.notes, "  This may be a server of an earlier revision: put holdfast serve in front of it.")
		case 401:
			_, _ = fmt.Fprintln(p.notes, "  It wants credentials: see --bearer-env.")
		}
	}
	return callNoAnswer
}

// otherData is an error's data on one line, unless it is nothing but the
// reason, which stands in the error's text already.
func otherData(data jsontext.Value) string {
	var reasonOnly struct {
		Reason *string `json:"reason"`
	}
	if len(data) == 0 || json.Unmarshal(data, &reasonOnly, json.RejectUnknownMembers(true)) == nil && reasonOnly.Reason != nil {
		return ""
	}
	return compact(data)
}
