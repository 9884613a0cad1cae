package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/holdfast-mcp/holdfast/test/bench/proc"
)

// node is an embedded NATS server, one of a cluster of two, and a client of it
// in the same process: what the bus of a replica stands on, without the bus.
type node struct {
	server *natsd.Server
	client *nats.Conn
}

const routeUser = "bench"

// startNode starts a node that listens for the other one's route at listen.
func startNode(name, listen, peer string) (*node, error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("route of %s: %w", name, err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("route of %s: %w", name, err)
	}
	n := &node{}
	n.server, err = natsd.NewServer(&natsd.Options{
		ServerName: name, NoSigs: true, NoLog: true, MaxPayload: 1 << 20, Host: "127.0.0.1", Port: -1,
		Cluster: natsd.ClusterOpts{
			Name: "bench", Host: host, Port: port, NoAdvertise: true, Username: routeUser, Password: routeUser,
		},
		Routes: []*url.URL{{Scheme: "nats-route", User: url.UserPassword(routeUser, routeUser), Host: peer}},
	})
	if err != nil {
		return nil, fmt.Errorf("NATS server %s: %w", name, err)
	}
	n.server.Start()
	if !n.server.ReadyForConnections(5 * time.Second) {
		n.stop()
		return nil, fmt.Errorf("NATS server %s does not start", name)
	}
	if n.client, err = nats.Connect("", nats.InProcessServer(n.server)); err != nil {
		n.stop()
		return nil, fmt.Errorf("connect to NATS server %s: %w", name, err)
	}
	return n, nil
}

func (n *node) stop() {
	if n.client != nil {
		n.client.Close()
	}
	n.server.Shutdown()
	n.server.WaitForShutdown()
}

// floorSubject is what the serving node listens to.
const floorSubject = "bench.floor"

// maxFloor bounds the bytes of an answer.
const maxFloor = 512 << 10

// serveFloor is this program as the node that answers: with as many bytes as
// the request's first four say.
func serveFloor(ctx context.Context, o options) error {
	n, err := startNode("bench-serving", o.listen, o.peer)
	if err != nil {
		return err
	}
	defer n.stop()
	answer := make([]byte, maxFloor)
	_, err = n.client.Subscribe(floorSubject, func(m *nats.Msg) {
		if len(m.Data) < 4 {
			return
		}
		_ = m.Respond(answer[:min(binary.BigEndian.Uint32(m.Data), maxFloor)]) // whoever waits for it sees
	})
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	<-ctx.Done()
	return nil
}

// floor is a plain NATS request-reply between two processes.
type floor struct {
	*node
	serving *proc.Child
	request []byte
	answer  int
}

// startFloor starts both nodes and waits until they have met.
func (b *trial) startFloor(ctx context.Context) (*floor, error) {
	routes, err := routeAddresses(2)
	if err != nil {
		return nil, err
	}
	listen, peer := routes[0], routes[1]
	f := &floor{}
	if f.serving, err = b.startSelf("floor", "-role", "nats", "-listen", peer, "-peer", listen); err != nil {
		return nil, err
	}
	if f.node, err = startNode("bench-asking", listen, peer); err != nil {
		f.serving.Stop()
		return nil, err
	}
	f.carry(4, 4)
	ready, cancel := context.WithTimeoutCause(ctx, 15*time.Second, errors.New("the NATS servers did not meet in time"))
	defer cancel()
	if err := f.serving.Until(ready, f.do); err != nil {
		f.stop()
		return nil, err
	}
	b.command("go run ./test/bench -role nats")
	return f, nil
}

func (f *floor) stop() {
	f.node.stop()
	f.serving.Stop()
}

// pids are the processes of both nodes; one is this program's own.
func (f *floor) pids() []int { return []int{os.Getpid(), f.serving.PID()} }

// carry sets how many bytes a request and its answer have.
func (f *floor) carry(request, answer int) {
	f.request, f.answer = make([]byte, max(request, 4)), min(answer, maxFloor)
	binary.BigEndian.PutUint32(f.request, uint32(f.answer))
}

// do is one request and its answer.
func (f *floor) do() error {
	m, err := f.client.Request(floorSubject, f.request, 5*time.Second)
	if err != nil {
		return fmt.Errorf("NATS request: %w", err)
	}
	if len(m.Data) != f.answer {
		return fmt.Errorf("NATS answer has %d bytes of %d: %w", len(m.Data), f.answer, io.ErrUnexpectedEOF)
	}
	return nil
}
