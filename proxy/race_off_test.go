//go:build !race

package proxy

const racing = false
