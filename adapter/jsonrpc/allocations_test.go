//go:build !race

package jsonrpc_test

import "testing"

func needExactAllocations(*testing.T) {}
