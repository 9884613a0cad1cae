package checkout_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-mcp/holdfast/test/checkout"
)

func TestRoot(t *testing.T) {
	root, err := checkout.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "test", "checkout", "doc.go")); err != nil {
		t.Errorf("%s is not the module's folder: %v", root, err)
	}
	t.Chdir(t.TempDir())
	if _, err := checkout.Root(t.Context()); !errors.Is(err, checkout.ErrOutside) {
		t.Errorf("outside the module: got %v, want ErrOutside", err)
	}
}

func TestFreeAddress(t *testing.T) {
	address, err := checkout.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("%s cannot be listened on: %v", address, err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
}
