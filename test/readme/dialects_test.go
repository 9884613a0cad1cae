package readme

import (
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/dialect"
)

// dialects are all that a client may speak.
var dialects = []string{
	dialect.NameMRTR, dialect.NameIncompleteResult, dialect.NameDependentRequests, dialect.NameSaga,
	dialect.NameResumeToken, dialect.NameResumable, dialect.NameTasks,
}

// Each dialect has a row that says when to use it, and a conversation by curl, which
// [TestSnippets] plays.
func TestDialects(t *testing.T) {
	rows := parsePage(t).rows(t, "## Dialects")
	for i, row := range rows {
		if len(row) != 4 || strings.Contains(strings.Join(row, "|")+"|", "||") {
			t.Errorf("row %q has no four cells", row)
		}
		if want := dialects[min(i, len(dialects)-1)]; row[0] != "`"+want+"`" {
			t.Errorf("row %d is %s, want %s", i, row[0], want)
		}
	}
	if len(rows) != len(dialects) {
		t.Errorf("%d rows, want %d", len(rows), len(dialects))
	}
	text := read(t, "README.md")
	_, about, _ := strings.Cut(text, "\n## Dialects\n")
	about, _, _ = strings.Cut(about, "\n## ")
	conversation := regexp.MustCompile("(?s)\n```sh\n[^`]*\\b(post|mcp|stream) .*?\n```\n\n```json\n")
	for _, name := range dialects {
		_, section, found := strings.Cut(about, "\n**"+name+".**")
		section, _, _ = strings.Cut(section, "\n**")
		if name == dialect.NameMRTR { // all of the page's other examples are its
			_, section, found = strings.Cut(text, "\n## The protocol by hand\n")
			section, _, _ = strings.Cut(section, "\n## ")
		}
		if n := len(conversation.FindAllString(section, -1)); !found || n < 2 {
			t.Errorf("%s: %d commands with their answers, want two at least", name, n)
		}
	}
}
