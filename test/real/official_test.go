package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The official client is pinned to what README.md and the printed table say of it.
func TestOfficialClientIsPinned(t *testing.T) {
	versions, err := pinned("official")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	printOfficials(&printed, &officials{versions: versions})
	for _, name := range []string{extTasks, sdkClient} {
		version := versions[name]
		if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(version) {
			t.Errorf("%s is pinned to %q, want an exact version", name, version)
		}
		if want := "| `" + name + "` " + version + " |"; !strings.Contains(string(page), want) {
			t.Errorf("README.md lacks %q", want)
		}
	}
	for _, other := range officialRows(versions) {
		if !strings.Contains(string(page), other.version+" | "+other.tasks+" |") {
			t.Errorf("README.md does not say of %s %s that it knows tasks: %s", other.client, other.version, other.tasks)
		}
		if !strings.Contains(printed.String(), other.client) {
			t.Errorf("%s is not printed", other.client)
		}
	}
}
