package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/holdfast-mcp/holdfast/test/checkout"
)

// NATS is a nats-server process on a fixed port.
type NATS struct {
	Address string

	binary string
	log    string
	cmd    *exec.Cmd
	file   *os.File
	ended  chan struct{}
}

func startNATS(ctx context.Context, binary, log string) (*NATS, error) {
	address, err := checkout.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	n := &NATS{Address: address, binary: binary, log: log}
	return n, n.Start(ctx)
}

// Start starts the server and returns once it listens.
func (n *NATS) Start(ctx context.Context) (err error) {
	host, port, err := net.SplitHostPort(n.Address)
	if err != nil {
		return err
	}
	if n.file, err = os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	n.cmd, n.ended = exec.Command(n.binary, "--addr", host, "--port", port), make(chan struct{})
	n.cmd.Stderr, n.cmd.Stdout = n.file, n.file
	if err := n.cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("start nats-server: %w", err), n.file.Close())
	}
	go func(cmd *exec.Cmd, ended chan struct{}) { // ends with the process, which Stop sees to
		_ = cmd.Wait() // how it ended does not matter
		close(ended)
	}(n.cmd, n.ended)
	for give := time.Now().Add(startWithin); ; {
		if c, err := net.Dial("tcp", n.Address); err == nil {
			return c.Close()
		}
		if time.Now().After(give) || !sleep(ctx, 10*time.Millisecond) {
			return errors.Join(fmt.Errorf("nats-server does not listen, see %s", n.log), n.Stop(syscall.SIGKILL))
		}
	}
}

// Stop ends the server.
func (n *NATS) Stop(signal syscall.Signal) error {
	if n.cmd == nil || n.cmd.Process == nil {
		return nil
	}
	_ = n.cmd.Process.Signal(signal) // fails only where it has ended
	select {
	case <-n.ended:
	case <-time.After(stopWithin):
		_ = n.cmd.Process.Kill()
		<-n.ended
	}
	return n.file.Close()
}
