package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/holdfast-mcp/holdfast/test/npm"
	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

// extTasks is the official client of the tasks extension, and sdkClient what it
// sits on. The official folder pins both.
const (
	extTasks  = "@modelcontextprotocol/ext-tasks"
	sdkClient = "@modelcontextprotocol/client"
)

//go:embed official/tasks.mjs
var officialProgram []byte

// officials is the installed official client.
type officials struct {
	program  string
	versions map[string]string
}

// installOfficial installs the client and puts its program beside its packages.
func installOfficial(ctx context.Context, home, dir string, log io.Writer) (*officials, error) {
	from := filepath.Join(home, "official")
	installed, err := npm.Cached(ctx, from, log)
	if err != nil {
		return nil, err
	}
	at := filepath.Join(dir, "official")
	o := &officials{program: filepath.Join(at, "tasks.mjs")}
	if o.versions, err = pinned(from); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return nil, err
	}
	return o, errors.Join(
		os.Symlink(filepath.Join(installed, "node_modules"), filepath.Join(at, "node_modules")),
		os.WriteFile(o.program, officialProgram, 0o644),
	)
}

// official starts the client at a stage.
func (b *bench) official(url string, identity peer.Identity) (*peer.Official, error) {
	home := filepath.Dir(b.officials.program)
	return peer.StartOfficial(peer.Command{Path: b.node, Args: []string{b.officials.program}, Env: environ(home), Dir: home}, url, identity)
}

// officialSteps let the client follow the tool that runs only as a task. A legacy
// client drives the same task itself.
func officialSteps() []step {
	return []step{
		followed("an ambiguous topic", object{"topic": "python", "ambiguous": true}, false),
		followed("a task that another client goes on with", object{"topic": "clocks"}, true),
	}
}

func followed(what string, arguments object, leaving bool) step {
	s := step{subject: subject{"client", extTasks}, what: what}
	s.play = func(ctx context.Context, c client) ([]peer.Outcome, error) {
		r := toolCall(researchTool, arguments)
		switch c := c.(type) {
		case *peer.Legacy:
			o, err := driven(ctx, c, r)
			o.Method = ""
			return outcomes(o, err)
		case *peer.Official:
			c.Leaving = leaving
			o, err := c.Call(ctx, r)
			if err != nil {
				return nil, err
			}
			// What comes by tasks/get is the result that the call would have had.
			result, _ := o.Result.(map[string]any)
			if result["resultType"] != "complete" {
				return nil, fmt.Errorf("the task's resultType is %v, want complete", result["resultType"])
			}
			delete(result, "resultType")
			o.Method = ""
			return outcomes(o, nil)
		}
		return nil, errors.ErrUnsupported
	}
	return s
}

// officialRow is what is known of an official client.
type officialRow struct{ client, version, tasks, here string }

// officialRows are the official clients that were looked at.
func officialRows(versions map[string]string) []officialRow {
	return []officialRow{
		{extTasks, versions[extTasks], "yes", "follows " + researchTool + " to its end over each transport, and goes on with the task of another client"},
		{sdkClient, versions[sdkClient], "no", "carries the requests of " + extTasks},
		{"@modelcontextprotocol/inspector", "2.12.0", "yes", "not used: it needs Node.js 22.19, and what it knows of tasks is " + extTasks},
		{"@modelcontextprotocol/sdk", "1.32.2", "no", "not used: it speaks no revision after 2025-11-25"},
		{"Go SDK", "1.8.0", "no", "not used: test/e2e has it, without tasks"},
	}
}

// printOfficials says which official clients know tasks, and what is made of them.
func printOfficials(out io.Writer, o *officials) {
	_, _ = fmt.Fprintf(out, "\nofficial clients, and whether they know the tasks extension\n\n%-31s  %-7s  %-5s  %s\n", "client", "version", "tasks", "here")
	for _, row := range officialRows(o.versions) {
		_, _ = fmt.Fprintf(out, "%-31s  %-7s  %-5s  %s\n", row.client, row.version, row.tasks, row.here)
	}
}
