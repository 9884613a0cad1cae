//go:build race

package e2e

// racing builds the binary as the tests are built.
const racing = true

// slowness is how much longer things take under the race detector, many at once.
const slowness = 3
