package config

import (
	"fmt"
	"strings"
)

// Mask stands in for a secret wherever settings are printed.
const Mask = "********"

// Problem is one thing that is wrong with the settings.
type Problem struct {
	Key    string // such as upstreams[1].url
	Value  string // as written; empty where it says nothing or is a secret
	Want   string // what is wrong with it, or what is allowed
	Source string // the file, variable or flag that it came from; empty for a default

	instead string // the key that could be given in the place of a missing one
}

func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Key)
	if p.Value != "" {
		b.WriteString(": " + p.Value)
	}
	b.WriteString(": " + p.Want)
	if p.Source != "" {
		b.WriteString(" (" + p.Source + ")")
	}
	return b.String()
}

// Error is everything that is wrong with the settings, at least one problem.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return "settings: " + e.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "settings: %d are wrong:", len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// problemsError returns nil where there is none.
func problemsError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &Error{Problems: problems}
}

// quoted shows a value from outside in an error, shortened.
func quoted(text string) string {
	const most = 100
	if len(text) > most {
		return fmt.Sprintf("%q...", text[:most])
	}
	return fmt.Sprintf("%q", text)
}
