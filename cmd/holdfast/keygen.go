package main

import (
	"errors"
	"flag"
	"io"

	"github.com/holdfast-mcp/holdfast/adapter/state"
)

// runKeygen prints a new request-state key.
func runKeygen(args []string, stdout, stderr io.Writer) int {
	const name = "holdfast keygen"
	if err := parse(newFlags(name), args); errors.Is(err, flag.ErrHelp) {
		return printed(stdout, stderr, name, keygenUsage)
	} else if err != nil {
		return misused(stderr, name, err, "holdfast help keygen")
	}
	return printed(stdout, stderr, name, state.NewKey().Hex()+"\n")
}
