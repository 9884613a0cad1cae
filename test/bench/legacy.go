package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/mock"
	"github.com/holdfast-mcp/holdfast/test/bench/proc"
)

// serveMock is this program as the legacy server: it says where it listens and
// serves until it is told to end.
func serveMock(ctx context.Context, o options, stdout io.Writer) error {
	if _, err := proc.Files(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	s := &mock.Server{NoStream: o.get == "405", Meeting: o.meeting, Keep: o.keep}
	fmt.Fprintf(stdout, "%s\n", l.Addr())
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	select {
	case <-ctx.Done():
		s.Close(l)
		return <-done
	case err := <-done:
		return err
	}
}

// startSelf starts this program in another role.
func (b *trial) startSelf(name string, args ...string) (*proc.Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return proc.Start(name, self, args...)
}

// server is a running mock, or what stands in front of one.
type server struct {
	*proc.Child
	addr string
}

// startServer starts a mock of its own process, with further flags if any.
func (b *trial) startServer(ctx context.Context, args ...string) (*server, error) {
	args = append([]string{"-role", "mock", "-get", b.get}, args...)
	child, err := b.startSelf("mock", append(args, "-meeting", strconv.Itoa(b.meeting))...)
	if err != nil {
		return nil, err
	}
	s := &server{Child: child}
	if err := s.listening(ctx); err != nil {
		return nil, err
	}
	b.command("go run ./test/bench " + strings.Join(args, " "))
	return s, nil
}

// listening waits until the program has said where it listens, or stops it.
func (s *server) listening(ctx context.Context) error {
	ready, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := s.Until(ready, func() error {
		line, _, whole := strings.Cut(s.Log(), "\n")
		if !whole {
			return errors.New("it has not said where it listens")
		}
		s.addr = line
		return nil
	})
	if err != nil {
		s.Stop()
	}
	return err
}

// counts are the mock's counters; see [mock.Stats].
type counts struct{ Sessions, Echoed, Asked, Answered, Left, Stray, Together, Waiting, Streams, Resumed int }

// counts asks the mock what it has seen.
func (s *server) counts(ctx context.Context) (counts, error) {
	var c counts
	text, err := s.get(ctx, "/stats")
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return c, fmt.Errorf("ask mock for its counts: %w", err)
	}
	return c, nil
}

// ask has the mock's calls of later ask.
func (s *server) ask(ctx context.Context) error {
	if _, err := s.get(ctx, "/ask"); err != nil {
		return fmt.Errorf("have mock ask: %w", err)
	}
	return nil
}

func (s *server) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+path, nil)
	if err != nil {
		return nil, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
