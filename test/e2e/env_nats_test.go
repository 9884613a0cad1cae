package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// natsBinary is nats-server as go.mod pins it, built when it is first needed.
var natsBinary struct {
	path string
	once sync.Once
	err  error
}

// natsServer is a running `nats-server`.
type natsServer struct {
	// URL is where clients reach it, also after it was stopped and started again.
	URL string

	address string
	command *exec.Cmd
	logs    *Logs
	read    chan struct{}
}

// commonNATS is the server of a whole run. Each fleet has a namespace there.
var commonNATS *natsServer

func startCommonNATS() (err error) {
	commonNATS, err = startNATS("127.0.0.1:-1")
	return err
}

func stopCommonNATS() error {
	if commonNATS == nil {
		return nil
	}
	return commonNATS.stop()
}

// NATS starts a server for one test, which may do with it what it likes.
func NATS(t testing.TB) *natsServer {
	t.Helper()
	s, err := startNATS(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// startNATS starts a server; port -1 is any free one.
func startNATS(address string) (*natsServer, error) {
	natsBinary.once.Do(func() { natsBinary.err = build(natsBinary.path, "github.com/nats-io/nats-server/v2") })
	if natsBinary.err != nil {
		return nil, natsBinary.err
	}
	s := &natsServer{address: address}
	return s, s.start()
}

func (s *natsServer) start() error {
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		return err
	}
	s.logs, s.read = newLogs(1), make(chan struct{})
	s.command = exec.Command(natsBinary.path, "--addr", host, "--port", port)
	stderr, err := s.command.StderrPipe()
	if err != nil {
		return err
	}
	if err := s.command.Start(); err != nil {
		return fmt.Errorf("start nats-server: %w", err)
	}
	go func() {
		defer close(s.read)
		readLogs(stderr, s.logs)
	}()
	const listening = "Listening for client connections on "
	timeout := time.After(patience)
	for {
		s.logs.mu.Lock()
		lines, ended, changed := s.logs.lines, s.logs.open == 0, s.logs.changed
		s.logs.mu.Unlock()
		text := strings.Join(lines, "\n")
		if _, address, ok := strings.Cut(text, listening); ok && strings.Contains(text, "Server is ready") {
			s.address, _, _ = strings.Cut(address, "\n")
			s.URL = "nats://" + s.address
			return nil
		}
		if ended {
			return fmt.Errorf("nats-server ended:\n%s", text)
		}
		select {
		case <-changed:
		case <-timeout:
			return errors.Join(fmt.Errorf("nats-server was not ready within %v:\n%s", patience, text), s.stop())
		}
	}
}

// stop ends the server. More than once is fine.
func (s *natsServer) stop() error {
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop nats-server: %w", err)
	}
	kill := time.AfterFunc(patience, func() { _ = s.command.Process.Kill() }) // Wait tells
	defer kill.Stop()
	<-s.read
	var status *exec.ExitError
	if err := s.command.Wait(); err != nil && !errors.As(err, &status) && s.command.ProcessState == nil {
		return fmt.Errorf("nats-server ended with %w", err)
	}
	return nil
}
