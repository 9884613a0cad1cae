package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter/legacy/child"
)

// TestMain: what the tests run may start this program anew, as a guard or as a
// command that is a server.
func TestMain(m *testing.M) {
	child.ServeGuard()
	if len(os.Args) > 1 && os.Args[1] == asServer {
		os.Exit(bridge(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// asServer is the first argument of this program as a command that is a server:
// one in the test's process, whose address is the second; further ones are names
// of variables that it must have.
const asServer = "as-server"

func bridge(args []string) int {
	for _, name := range args[1:] {
		if os.Getenv(name) == "" {
			fmt.Fprintf(os.Stderr, "%s is not set\n", name)
			return 3
		}
	}
	conn, err := net.Dial("tcp", args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 4
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin)       // until Holdfast closes it
		_ = conn.(*net.TCPConn).CloseWrite() // which the server is told
	}()
	_, _ = io.Copy(os.Stdout, conn) // until the server has ended the session
	return 0
}
