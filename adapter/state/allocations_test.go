//go:build !race

package state

import "testing"

func needExactAllocations(*testing.T) {}
