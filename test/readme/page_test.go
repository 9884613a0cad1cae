package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the checkout, seen from here.
const root = "../.."

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fence is a fenced block.
type fence struct {
	kind, text string
	line       int // of its first line in the page
}

// page is README.md, taken apart.
type page struct {
	fences []fence
	prose  string // without fenced blocks and generated tables
}

var generated = regexp.MustCompile(`(?s)<!-- (\w+):begin -->\n(.*?)<!-- (\w+):end -->`)

func parsePage(t testing.TB) page {
	t.Helper()
	var p page
	var prose strings.Builder
	var open *fence
	indent := ""
	n := 0
	for line := range strings.Lines(read(t, "README.md")) {
		n++
		bare := strings.TrimLeft(line, " ")
		kind, isFence := strings.CutPrefix(strings.TrimSpace(bare), "```")
		switch {
		case !isFence && open == nil:
			prose.WriteString(line)
		case !isFence:
			open.text += strings.TrimPrefix(line, indent)
		case open == nil:
			indent = line[:len(line)-len(bare)]
			open = &fence{kind: kind, line: n + 1}
		default:
			p.fences = append(p.fences, *open)
			open = nil
		}
	}
	if open != nil {
		t.Fatalf("README.md:%d: a block has no end", open.line)
	}
	p.prose = generated.ReplaceAllString(prose.String(), "")
	return p
}

// kinds returns the blocks of a kind.
func (p page) kinds(kind string) []fence {
	var found []fence
	for _, f := range p.fences {
		if f.kind == kind {
			found = append(found, f)
		}
	}
	return found
}

var codeSpan = regexp.MustCompile("`([^`\n]+)`")

// spans returns what the prose sets as code.
func (p page) spans() []string {
	var spans []string
	for _, m := range codeSpan.FindAllStringSubmatch(p.prose, -1) {
		spans = append(spans, m[1])
	}
	return spans
}

// code is everything that is set as code: spans, and blocks that are commands.
func (p page) code() string {
	text := strings.Join(p.spans(), "\n")
	for _, f := range p.kinds("sh") {
		text += "\n" + f.text
	}
	return text
}

// rows returns the cells of the table under a heading.
func (p page) rows(t testing.TB, heading string) [][]string {
	t.Helper()
	_, section, ok := strings.Cut(p.prose, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("there is no %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var rows [][]string
	for line := range strings.Lines(section) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "|") {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	if len(rows) < 3 {
		t.Fatalf("there is no table under %q", heading)
	}
	return rows[2:]
}

// names returns the code spans of a table's cell.
func names(cell string) []string {
	var found []string
	for _, m := range codeSpan.FindAllStringSubmatch(cell, -1) {
		found = append(found, m[1])
	}
	return found
}
