package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/holdfast-mcp/holdfast/test/schema"
)

// schemasOf prints the schemas that the suite carries inside its program, where
// they are object literals of JavaScript, as one JSON object. The table of them is
// what names their revisions; the last of it is the newest revision.
const schemasOf = `
const text = require("fs").readFileSync(process.argv[1], "utf8"), vm = require("vm");
const table = text.match(/=\{("20\d\d-\d\d-\d\d":[\w$]+,)+\[[\w$]+\]:[\w$]+\}/);
if (!table) throw new Error("no table of schemas in " + process.argv[1]);
const found = {};
for (const [, revision, name] of table[0].matchAll(/[{,](?:"([^"]+)"|\[[\w$]+\]):([\w$]+)/g)) {
  const begin = text.indexOf(name + "={$schema:");
  if (begin < 0) throw new Error("no schema " + name);
  let depth = 0, quote = "", i = begin + name.length + 1;
  const from = i;
  for (; ; i++) {
    const c = text[i];
    if (c === undefined) throw new Error("schema " + name + " does not end");
    if (quote) { if (c === "\\") i++; else if (c === quote) quote = ""; continue; }
    if ('"\x27\x60'.includes(c)) quote = c;
    else if (c === "{") depth++;
    else if (c === "}" && --depth === 0) break;
  }
  found[revision ?? process.argv[2]] = vm.runInNewContext("(" + text.slice(from, i + 1) + ")");
}
console.log(JSON.stringify(found));
`

// writeSchemas writes the schemas that the installed suite carries to a folder,
// as test/schema reads them.
func writeSchemas(ctx context.Context, home, dir string, log io.Writer) error {
	if err := install(ctx, home, log); err != nil {
		return err
	}
	var text, problems bytes.Buffer
	node := exec.CommandContext(ctx, nodePath(home), "-e", schemasOf, suitePath(home, "dist", "index.js"), revision)
	node.Stdout, node.Stderr = &text, &problems
	if err := node.Run(); err != nil {
		return fmt.Errorf("take the schemas out of the suite: %w\n%s", err, &problems)
	}
	var found map[string]json.RawMessage
	if err := json.Unmarshal(text.Bytes(), &found); err != nil {
		return fmt.Errorf("the schemas of the suite: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, one := range found {
		if !slices.Contains(schema.Revisions, name) {
			return fmt.Errorf("the suite has a schema of %q, which is no revision", name)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), one, 0o644); err != nil {
			return err
		}
	}
	set, err := schema.Load(dir)
	if err != nil {
		return err
	}
	for _, name := range schema.Revisions {
		if !set.Has(name) {
			_, _ = fmt.Fprintf(log, "the suite has no schema of %s\n", name)
		}
	}
	_, err = fmt.Fprintf(log, "schemas in %s\n", dir)
	return err
}
