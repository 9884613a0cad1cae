//go:build !unix

package proxy

import "net"

// ahead reads nothing ahead here.
type ahead struct{}

func (*ahead) start(net.Conn)  {}
func (*ahead) usable() bool    { return false }
func (*ahead) empty() bool     { return true }
func (*ahead) read() error     { return nil }
func (*ahead) take([]byte) int { return 0 }
