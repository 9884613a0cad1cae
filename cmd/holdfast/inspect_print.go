package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/legacy"
)

// text is the survey for people.
func (f *Survey) text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", name, oneLine(fmt.Sprintf(format, args...)))
	}
	row("server", "%s", f.name())
	row("era", "%s, revision %s, over %s", f.Era, f.Revision, f.Transport)
	row("capabilities", "%s", f.abilities())
	if f.Era == legacy.EraLegacy.String() {
		row("session ids", "%s", yes(f.SessionIDs))
		row("GET stream", "%s", yes(f.GETStream))
		row("answers", "%s", f.Answers)
		row("event ids", "%s", yes(f.EventIDs))
		row("asks by itself", "%s", yes(f.AsksByItself))
		pushes := "not known before a tool asks"
		if f.PushesOutside != nil {
			pushes = yes(*f.PushesOutside)
		}
		row("asks outside a call's own stream", "%s", pushes)
	}
	row("offers", "%d tools, %d prompts, %d resources, %d resource templates", len(f.Tools), f.Prompts, f.Resources, f.Templates)
	var latency []string
	if f.OpenMillis > 0 {
		latency = append(latency, fmt.Sprintf("%.2f ms to open a session", f.OpenMillis))
	}
	if f.PingMillis > 0 {
		latency = append(latency, fmt.Sprintf("%.2f ms for a request that does nothing", f.PingMillis))
	}
	row("latency", "%s", strings.Join(latency, ", "))
	_ = w.Flush()
	if len(f.Tools) > 0 {
		b.WriteString("\n")
		_, _ = fmt.Fprintln(w, "tool\tread-only\tidempotent\tdestructive\topen world\ttask\truns again")
		for _, t := range f.Tools {
			task := t.Task
			if task == "" {
				task = "-"
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", oneLine(t.Name), t.hint("readOnlyHint"), t.hint("idempotentHint"),
				t.hint("destructiveHint"), t.hint("openWorldHint"), oneLine(task), yes(t.Replay))
		}
		_ = w.Flush()
	}
	paragraph(&b, "Holdfast in front of it", f.Holdfast)
	paragraph(&b, "Trouble", f.Trouble)
	return b.String()
}

func paragraph(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	b.WriteString("\n" + title + ":\n")
	for _, line := range lines {
		b.WriteString("  - " + oneLine(line) + "\n")
	}
}

func (f *Survey) name() string {
	name, _ := jsonrpc.Unquote(jsonrpc.Get(f.Server, "name"))
	version, _ := jsonrpc.Unquote(jsonrpc.Get(f.Server, "version"))
	return strings.TrimSpace(name + " " + version)
}

// abilities are the names of the capabilities, with what is on in them.
func (f *Survey) abilities() string {
	var names []string
	of := jsonrpc.Object(f.Capabilities)
	for of.Next() {
		var on []string
		inner := jsonrpc.Object(of.Value())
		for inner.Next() {
			if string(inner.Value()) == "true" {
				on = append(on, string(inner.Name()))
			}
		}
		name := string(of.Name())
		if len(on) > 0 {
			name += " (" + strings.Join(on, ", ") + ")"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// hint is what an annotation says, or "-".
func (t *Tool) hint(name string) string {
	switch string(jsonrpc.Get(t.Annotations, name)) {
	case "true":
		return "yes"
	case "false":
		return "no"
	}
	return "-"
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
