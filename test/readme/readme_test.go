package readme

import (
	"bufio"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-mcp/holdfast/config"
	"github.com/holdfast-mcp/holdfast/proxy/downstream"
)

var update = flag.Bool("update", false, "write the generated tables of README.md anew")

// blocks are the tables between markers, by the markers' name.
var blocks = map[string]func() string{
	"settings": config.Markdown,
	"reasons":  reasonsTable,
}

// reasonsTable is what data.reason may say.
func reasonsTable() string {
	var b strings.Builder
	b.WriteString("| reason | status | code | meaning |\n| --- | --- | --- | --- |\n")
	for _, a := range downstream.Reasons() {
		fmt.Fprintf(&b, "| `%s` | %d | %d | %s |\n", a.Reason, a.Status, a.Code, strings.ReplaceAll(a.Meaning, "|", `\|`))
	}
	return b.String()
}

func TestGeneratedTables(t *testing.T) {
	text := read(t, "README.md")
	seen := map[string]bool{}
	written := generated.ReplaceAllStringFunc(text, func(block string) string {
		m := generated.FindStringSubmatch(block)
		name := m[1]
		if m[3] != name || seen[name] {
			t.Fatalf("the markers of %q are not a pair of their own", name)
		}
		seen[name] = true
		render, ok := blocks[name]
		if !ok {
			return block // figures are measured, not rendered
		}
		want := render()
		if m[2] == want {
			return block
		}
		if !*update {
			t.Errorf("the table %q is not what the code says (go test ./test/readme -update)", name)
		}
		return "<!-- " + name + ":begin -->\n" + want + "<!-- " + name + ":end -->"
	})
	for name, render := range blocks {
		if !seen[name] {
			t.Errorf("README.md has no markers for %q", name)
		}
		if n := strings.Count(written, render()); n != 1 {
			t.Errorf("README.md has the table %q %d times", name, n)
		}
	}
	if *update && written != text {
		if err := os.WriteFile(filepath.Join(root, "README.md"), []byte(written), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)

func TestMakeTargets(t *testing.T) {
	var targets []string
	for _, m := range makeTarget.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets = append(targets, m[1])
	}
	for _, m := range regexp.MustCompile(`\bmake ([a-z][a-z-]*)`).FindAllStringSubmatch(parsePage(t).code(), -1) {
		if !slices.Contains(targets, m[1]) {
			t.Errorf("README.md mentions %q, which the Makefile does not have", m[0])
		}
	}
	// What CI calls is there, too.
	for _, m := range regexp.MustCompile(`(?m)^make ([a-z-]+)`).FindAllStringSubmatch(read(t, ".ci/run"), -1) {
		if !slices.Contains(targets, m[1]) {
			t.Errorf(".ci/run calls %q, which the Makefile does not have", m[0])
		}
	}
}

// The Makefile's FUZZ names every fuzz target of the code, and no other.
func TestFuzzList(t *testing.T) {
	_, list, _ := strings.Cut(read(t, "Makefile"), "\nFUZZ = \\\n")
	list, _, _ = strings.Cut(list, "\n\n")
	listed := strings.Fields(strings.ReplaceAll(list, "\\", ""))
	target := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	var written []string
	eachFile(t, "_test.go", func(file, text string) {
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			written = append(written, "./"+filepath.ToSlash(filepath.Dir(file))+":"+m[1])
		}
	})
	slices.Sort(listed)
	slices.Sort(written)
	if !slices.Equal(listed, written) {
		t.Errorf("FUZZ in the Makefile is\n%s\nthe code has\n%s", strings.Join(listed, "\n"), strings.Join(written, "\n"))
	}
}

// eachFile visits the files of the checkout whose names end in suffix.
func eachFile(t *testing.T, suffix string, visit func(file, text string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || strings.HasPrefix(entry.Name(), ".") && file != "."):
			return fs.SkipDir
		case entry.Type().IsRegular() && strings.HasSuffix(file, suffix):
			visit(file, read(t, file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// settings are the keys in the table of settings.
func settings() []string {
	var keys []string
	for line := range strings.Lines(config.Markdown()) {
		if found := names(line); strings.HasPrefix(line, "| `") {
			keys = append(keys, found[0])
		}
	}
	return keys
}

func TestSettings(t *testing.T) {
	keys := settings()
	sections := map[string]bool{}
	for _, key := range keys {
		for i, c := range key {
			if c == '.' {
				sections[key[:i]] = true
			}
		}
	}
	mentioned := regexp.MustCompile(`^([a-z]+)(\[\])?\.[a-z_.]+`)
	variable := regexp.MustCompile(`HOLDFAST_[A-Z_]+`)
	p := parsePage(t)
	for _, span := range p.spans() {
		m := mentioned.FindStringSubmatch(span)
		if m == nil || !sections[m[1]+m[2]] {
			continue
		}
		if key := strings.TrimSuffix(m[0], "."); !slices.Contains(keys, key) && !sections[key] {
			t.Errorf("README.md mentions the setting %q, which does not exist", key)
		}
	}
	for _, name := range variable.FindAllString(p.code(), -1) {
		key := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "HOLDFAST_"), "__", "."))
		if key != "" && name != "HOLDFAST_CONFIG" && name != "HOLDFAST_UPSTREAM" && !slices.Contains(keys, key) {
			t.Errorf("README.md mentions the variable %q, which does not exist", name)
		}
	}
}

// Each limit exists, and its reason is answered with the status that is told.
func TestLimits(t *testing.T) {
	status := map[string]int{}
	for _, a := range downstream.Reasons() {
		status[string(a.Reason)] = a.Status
	}
	keys := settings()
	for _, row := range parsePage(t).rows(t, "## Limits") {
		if len(row) != 4 {
			t.Fatalf("%q has %d cells", row, len(row))
		}
		for _, key := range names(row[0]) {
			if !slices.Contains(keys, key) {
				t.Errorf("the limit %q does not exist", key)
			}
		}
		if reasons := names(row[2]); len(reasons) > 0 && strconv.Itoa(status[reasons[0]]) != row[3] {
			t.Errorf("%s: %q is answered %d, not %s", row[0], reasons[0], status[reasons[0]], row[3])
		}
	}
}

// Every line of the log that is explained is one that the code writes.
func TestLogLines(t *testing.T) {
	var code strings.Builder
	eachFile(t, ".go", func(file, text string) {
		if !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "test/") {
			code.WriteString(text)
		}
	})
	lines := []string{"request-state keys read"} // of the rotation
	for _, row := range parsePage(t).rows(t, "## Logs") {
		lines = append(lines, names(row[1])...)
	}
	for _, line := range lines {
		if !strings.Contains(code.String(), `Msg("`+line) && !strings.Contains(code.String(), `.warn("`+line) {
			t.Errorf("nothing logs %q", line)
		}
	}
}

func TestConfigurationFiles(t *testing.T) {
	files := parsePage(t).kinds("yaml")
	if len(files) == 0 {
		t.Fatal("README.md shows no configuration")
	}
	for _, f := range files {
		file := filepath.Join(t.TempDir(), "holdfast.yaml")
		text, environ := f.text, []string(nil)
		if strings.HasPrefix(text, "apiVersion:") {
			text, environ = manifest(t, f)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		config.AddFlags(flags)
		if err := flags.Parse([]string{"--config", file}); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(flags, environ); err != nil {
			t.Errorf("README.md:%d: %v", f.line, err)
		}
	}
}

// manifest returns the configuration file in the ConfigMap of a Kubernetes
// manifest, and the variables that its container has, with any values.
func manifest(t *testing.T, f fence) (file string, environ []string) {
	t.Helper()
	for _, document := range strings.Split(f.text, "\n---\n") {
		var resource struct{ Data map[string]string }
		if err := yaml.Unmarshal([]byte(document), &resource); err != nil {
			t.Fatalf("README.md:%d: %v in\n%s", f.line, err, document)
		}
		if text, ok := resource.Data["holdfast.yaml"]; ok {
			file = text
		}
	}
	for _, m := range regexp.MustCompile(`- name: (HOLDFAST_\w+)`).FindAllStringSubmatch(f.text, -1) {
		environ = append(environ, m[1]+"=any")
	}
	if file == "" || len(environ) == 0 {
		t.Fatalf("README.md:%d: the manifest has no holdfast.yaml, or its container no variable", f.line)
	}
	return file, environ
}

// Links within the page lead to a heading.
func TestLinks(t *testing.T) {
	p := parsePage(t)
	headings := map[string]bool{}
	scanner := bufio.NewScanner(strings.NewReader(p.prose))
	for scanner.Scan() {
		if title := strings.TrimLeft(scanner.Text(), "#"); title != scanner.Text() {
			headings[strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-")] = true
		}
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(p.prose, -1) {
		if !headings[m[1]] {
			t.Errorf("README.md links to #%s, which is no heading", m[1])
		}
	}
}
