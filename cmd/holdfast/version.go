package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// versionModules are the modules whose versions a bug report needs.
var versionModules = []string{
	"github.com/valyala/fasthttp",
	"github.com/go-json-experiment/json",
	"golang.org/x/crypto",
	"github.com/knadh/koanf/v2",
	"github.com/rs/zerolog",
	"github.com/prometheus/client_golang",
}

// runVersion prints what the build info says of this program.
func runVersion(args []string, stdout, stderr io.Writer) int {
	const name = "holdfast version"
	if err := parse(newFlags(name), args); errors.Is(err, flag.ErrHelp) {
		return printed(stdout, stderr, name, versionUsage)
	} else if err != nil {
		return misused(stderr, name, err, "holdfast help version")
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return failed(stderr, name, errors.New("this program was built without build info"))
	}
	return printed(stdout, stderr, name, versionText(info))
}

func versionText(info *debug.BuildInfo) string {
	var b strings.Builder
	fmt.Fprintf(&b, "holdfast %s\n", mainVersion(info))
	built := map[string]string{}
	for _, s := range info.Settings {
		built[s.Key] = s.Value
	}
	if commit := built["vcs.revision"]; commit != "" {
		fmt.Fprintf(&b, "commit %s %s", commit, built["vcs.time"])
		if built["vcs.modified"] == "true" {
			b.WriteString(" (modified)")
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s %s/%s\n", info.GoVersion, cmp.Or(built["GOOS"], runtime.GOOS), cmp.Or(built["GOARCH"], runtime.GOARCH))
	for _, m := range info.Deps {
		if slices.Contains(versionModules, m.Path) {
			fmt.Fprintf(&b, "%s %s\n", m.Path, used(m).Version)
		}
	}
	return b.String()
}

// buildVersion is the version of this program.
func buildVersion() string {
	info, _ := debug.ReadBuildInfo()
	return mainVersion(info)
}

// mainVersion is (devel) where the build info has no version, or is not there.
func mainVersion(info *debug.BuildInfo) string {
	if info == nil {
		return "(devel)"
	}
	return cmp.Or(info.Main.Version, "(devel)")
}

// used follows a replace directive.
func used(m *debug.Module) *debug.Module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}
