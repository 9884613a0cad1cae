package e2e

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// roundsWereForwarded checks, at the end of a run of the whole suite with
// several replicas, that the replicas have had to do with each other: a
// balancer that sent every call's rounds to one replica would prove nothing.
func roundsWereForwarded() error {
	if mode == modeOne {
		return nil
	}
	served.Lock()
	defer served.Unlock()
	forwarded := 0.0
	for _, series := range slices.Sorted(maps.Keys(served.rounds)) {
		n := served.rounds[series]
		fmt.Fprintf(os.Stderr, "%s %.0f\n", series, n)
		if strings.Contains(series, `served="forwarded"`) {
			forwarded += n
		}
	}
	if chosen("test.run") || chosen("test.skip") || chosen("test.list") {
		return nil // the tests of this run may need no other replica
	}
	if forwarded == 0 {
		return fmt.Errorf("no round was forwarded from one replica to another: the run proves nothing about several (%s)", roundsTotal)
	}
	return nil
}

// chosen reports whether a flag of the test binary is set.
func chosen(name string) bool {
	f := flag.Lookup(name)
	return f != nil && f.Value.String() != ""
}
