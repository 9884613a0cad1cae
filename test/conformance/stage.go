package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-mcp/holdfast/test/checkout"
	"github.com/holdfast-mcp/holdfast/test/fixture/roundrobin"
)

const (
	startWithin = 20 * time.Second // for a program to be ready
	stopWithin  = 10 * time.Second // for a program to end after SIGTERM
)

// stage is what the suite plays on: the legacy server, and Holdfast in front.
type stage struct {
	url      string
	tasks    string               // the endpoint before the server with tasks, or ""
	balancer *roundrobin.Balancer // before several replicas, or nil
	dir      string               // of the binaries
	programs []*program
}

// program is a running child process.
type program struct {
	name  string
	cmd   *exec.Cmd
	log   *os.File
	ended chan struct{} // closed when the process is gone
}

// raise builds the binaries and starts them; their output goes to results.
func raise(ctx context.Context, root, results string, direct bool, replicas int) (s *stage, err error) {
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return nil, err
	}
	s = &stage{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.lower())
		}
	}()
	packages := []string{"./test/fixture/conformanceserver"}
	if !direct {
		packages = append(packages, "./test/fixture/taskserver", "./cmd/holdfast")
	}
	build := exec.CommandContext(ctx, "go", append([]string{"build", "-o", dir + string(filepath.Separator)}, packages...)...)
	build.Dir, build.Stderr = root, os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("go build %s: %w", strings.Join(packages, " "), err)
	}
	if s.url, err = s.startFixture(results, "conformanceserver", "-listen", "127.0.0.1:0"); err != nil || direct {
		return s, err
	}
	tasks, err := s.startFixture(results, "taskserver")
	if err == nil {
		err = s.configure(s.url, tasks)
	}
	if err != nil {
		return s, err
	}
	if replicas == 1 {
		s.url, err = s.startHoldfast(ctx, results, "holdfast")
	} else {
		err = s.startFleet(ctx, results, replicas)
	}
	s.tasks = strings.TrimSuffix(s.url, "/mcp") + "/tasks"
	return s, err
}

// configure writes Holdfast's configuration. A tool that runs as a task only is
// refused to clients without the extension, as the suite wishes.
func (s *stage) configure(plain, tasks string) error {
	text := fmt.Sprintf("upstreams:\n  - {name: default, url: %q, path: /mcp}\n  - {name: tasks, url: %q, path: /tasks}\n"+
		"dialects: {tasks: {required: refuse}}\n", plain, tasks)
	return os.WriteFile(s.config(), []byte(text), 0o600)
}

func (s *stage) config() string { return filepath.Join(s.dir, "holdfast.yaml") }

// startFleet starts replicas that form a cluster, behind a round-robin.
func (s *stage) startFleet(ctx context.Context, results string, replicas int) error {
	keys := filepath.Join(s.dir, "keys")
	key, err := exec.CommandContext(ctx, filepath.Join(s.dir, "holdfast"), "keygen").Output()
	if err == nil {
		err = os.WriteFile(keys, key, 0o600)
	}
	if err != nil {
		return fmt.Errorf("make a request-state key: %w", err)
	}
	routes := make([]string, replicas)
	fleet := []string{"--state-key-file", keys, "--shutdown.grace", "3s"}
	for i := range routes {
		if routes[i], err = checkout.FreeAddress(ctx); err != nil {
			return err
		}
		fleet = append(fleet, "--cluster-peer", routes[i])
	}
	addresses := make([]string, replicas)
	for i, route := range routes {
		name := fmt.Sprintf("holdfast-%d", i+1)
		url, err := s.startHoldfast(ctx, results, name, append(fleet, "--cluster-listen", route)...)
		if err != nil {
			return err
		}
		addresses[i] = strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
	}
	s.balancer, err = roundrobin.Start(addresses...)
	if err != nil {
		return err
	}
	s.url = "http://" + s.balancer.Addr() + "/mcp"
	return nil
}

// startFixture starts the legacy server and reads its URL from its first line.
func (s *stage) startFixture(results, name string, flags ...string) (url string, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer read.Close()
	_, err = s.start(results, name, write, flags...)
	write.Close()
	if err != nil {
		return "", err
	}
	_ = read.SetReadDeadline(time.Now().Add(startWithin)) // pipes have deadlines
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%s printed no URL: %w", name, err)
	}
	return strings.TrimSpace(line), nil
}

// startHoldfast starts the proxy on a free port and waits until it listens.
func (s *stage) startHoldfast(ctx context.Context, results, name string, flags ...string) (url string, err error) {
	address, err := checkout.FreeAddress(ctx)
	if err != nil {
		return "", err
	}
	holdfast, err := s.start(results, name, nil, append([]string{"serve", "--config", s.config(), "--listen", address}, flags...)...)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		if connection, err := new(net.Dialer).DialContext(ctx, "tcp", address); err == nil {
			tick.Stop()
			return "http://" + address + "/mcp", connection.Close()
		}
		select {
		case <-tick.C:
		case <-holdfast.ended:
			tick.Stop()
			return "", fmt.Errorf("holdfast ended at once, see %s", holdfast.log.Name())
		case <-ctx.Done():
			tick.Stop()
			return "", fmt.Errorf("holdfast does not listen on %s after %v, see %s", address, startWithin, holdfast.log.Name())
		}
	}
}

// start runs the binary that name begins with, up to a dash.
func (s *stage) start(results, name string, stdout *os.File, args ...string) (*program, error) {
	log, err := os.Create(filepath.Join(results, name+".log"))
	if err != nil {
		return nil, err
	}
	binary, _, _ := strings.Cut(name, "-")
	p := &program{name: name, log: log, ended: make(chan struct{}), cmd: exec.Command(filepath.Join(s.dir, binary), args...)}
	p.cmd.Env = append(os.Environ(), "HOLDFAST_BUS__CLUSTER__SECRET=conformance")
	p.cmd.Stderr = log
	p.cmd.Stdout = log
	if stdout != nil {
		p.cmd.Stdout = stdout
	}
	if err := p.cmd.Start(); err != nil {
		log.Close()
		return nil, err
	}
	go func() { // ends with the process, which lower sees to
		_ = p.cmd.Wait() // the exit state is read from ProcessState
		close(p.ended)
	}()
	s.programs = append(s.programs, p)
	return p, nil
}

// lower stops the programs, the legacy server last. Holdfast has to end by itself
// and cleanly: the suite leaves parked calls and open streams behind.
func (s *stage) lower() error {
	var failures []error
	if s.balancer != nil {
		s.balancer.Close()
	}
	for i := 1; i < len(s.programs); i++ { // the replicas all at once: a last one waits for nobody
		_ = s.programs[i].cmd.Process.Signal(syscall.SIGTERM) // fails only where it has ended
	}
	for i := len(s.programs) - 1; i >= 0; i-- {
		p := s.programs[i]
		if i == 0 {
			_ = p.cmd.Process.Signal(syscall.SIGTERM) // as above
		}
		select {
		case <-p.ended:
		case <-time.After(stopWithin):
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
		if !p.cmd.ProcessState.Success() {
			failures = append(failures, fmt.Errorf("%s: %s, see %s", p.name, p.cmd.ProcessState, p.log.Name()))
		}
		failures = append(failures, p.log.Close())
	}
	return errors.Join(append(failures, os.RemoveAll(s.dir))...)
}
