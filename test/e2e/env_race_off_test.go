//go:build !race

package e2e

// racing builds the binary as the tests are built.
const racing = false

const slowness = 1
