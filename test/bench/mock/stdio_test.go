package mock_test

import (
	"bufio"
	"io"
	"testing"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/mock"
)

// piped is a client at the pipes of a mock.
type piped struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

func startPiped(t *testing.T, s *mock.Stdio) *piped {
	t.Helper()
	theirs, in := io.Pipe()
	out, ours := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- s.Serve(theirs, ours) }()
	t.Cleanup(func() {
		in.Close()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return &piped{t, in, bufio.NewScanner(out)}
}

func (p *piped) say(message string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, message+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *piped) hear(want string) {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("got the end, want %s", want)
	}
	if got := p.out.Text(); got != want {
		p.t.Errorf("got %s, want %s", got, want)
	}
}

func TestStdioDialogue(t *testing.T) {
	for _, takes := range []time.Duration{0, time.Millisecond} {
		p := startPiped(t, &mock.Stdio{Takes: takes})
		p.say(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18"}}`)
		p.hear(`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"mock","version":"1.0.0"}}}`)
		p.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		p.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"one"}}}`)
		p.hear(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"one"}]}}`)
		p.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"text":"two"}}}`)
		question := `,"method":"elicitation/create","params":{"message":"What is the answer?","requestedSchema":` +
			`{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}}}`
		p.hear(`{"jsonrpc":"2.0","id":1` + question)
		p.say(`{"jsonrpc":"2.0","id":7,"result":{"action":"accept"}}`) // no such question
		p.say(`{"jsonrpc":"2.0","id":1,"result":` + yes + `}`)
		p.hear(`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"two=yes"}]}}`)
		p.say(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ask","arguments":{"text":"two"}}}`)
		p.hear(`{"jsonrpc":"2.0","id":2` + question)
		p.say(`{"jsonrpc":"2.0","id":2,"result":{"action":"decline"}}`)
		p.hear(`{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"no answer"}}`)
		p.say(`{"jsonrpc":"2.0","id":4,"method":"server/discover"}`)
		p.hear(`{"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"method not found"}}`)
	}
}
