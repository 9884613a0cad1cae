package mock

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// Stdio is the mock over stdio, where a line is a message and one stream is for
// all. It has the tools echo and ask.
type Stdio struct {
	// Takes is how long a call takes before it is answered, or asks. The processor
	// has nothing to do meanwhile, and other calls are served.
	Takes time.Duration

	working sync.WaitGroup // calls that take their time

	mu    sync.Mutex // guards what follows: one line is written at a time
	out   io.Writer
	line  []byte
	asked uint64 // the last question
	open  map[uint64]waiting
}

// waiting is a call of ask whose question is open.
type waiting struct{ id, text []byte }

// Serve answers what comes on in, until it ends.
func (s *Stdio) Serve(in io.Reader, out io.Writer) error {
	s.out, s.open = out, make(map[uint64]waiting)
	defer s.working.Wait()
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read message: %w", err)
		}
		if err := s.take(line); err != nil {
			return fmt.Errorf("write message: %w", err)
		}
	}
}

// take takes one message.
func (s *Stdio) take(line []byte) error {
	var method, id, params, result []byte
	for m := wire.Object(line); m.Next(); {
		switch string(m.Name) {
		case "method":
			method = wire.Text(m.Value)
		case "id":
			id = m.Value
		case "params":
			params = m.Value
		case "result":
			result = m.Value
		}
	}
	switch {
	case id == nil:
		return nil
	case method == nil:
		return s.answer(id, result)
	}
	switch string(method) {
	case "tools/call":
		return s.call(id, params)
	case "initialize":
		return s.write(func(dst []byte) []byte { return appendHello(dst, id, params) })
	case "tools/list":
		return s.write(func(dst []byte) []byte { return appendResult(dst, id, []byte(toolList)) })
	case "ping":
		return s.write(func(dst []byte) []byte { return appendResult(dst, id, []byte("{}")) })
	}
	return s.write(func(dst []byte) []byte { return appendError(dst, id, -32601, "method not found") })
}

// call serves a call, at once or after the time that it takes.
func (s *Stdio) call(id, params []byte) error {
	text := wire.Text(wire.Get(params, "arguments", "text"))
	name := string(wire.Text(wire.Get(params, "name")))
	if s.Takes == 0 {
		return s.serve(name, id, text)
	}
	id, text = append([]byte(nil), id...), append([]byte(nil), text...)
	s.working.Go(func() {
		time.Sleep(s.Takes)
		_ = s.serve(name, id, text) // nobody reads any more: the input will end as well
	})
	return nil
}

func (s *Stdio) serve(name string, id, text []byte) error {
	return s.write(func(dst []byte) []byte {
		switch name {
		case "echo":
			return appendTexts(dst, id, text)
		case "ask":
			s.asked++
			s.open[s.asked] = waiting{append([]byte(nil), id...), append([]byte(nil), text...)}
			return appendQuestion(dst, s.asked)
		}
		return appendError(dst, id, -32602, "unknown tool")
	})
}

// answer ends a call with the answer to its question.
func (s *Stdio) answer(id, result []byte) error {
	number, _ := strconv.ParseUint(string(id), 10, 64) // zero is no question
	return s.write(func(dst []byte) []byte {
		w, ok := s.open[number]
		switch delete(s.open, number); {
		case !ok:
			return dst
		case string(wire.Text(wire.Get(result, "action"))) == "accept":
			return appendTexts(dst, w.id, w.text, []byte("="), wire.Text(wire.Get(result, "content", "answer")))
		}
		return appendError(dst, w.id, -32603, "no answer")
	})
}

// write writes the message that is appended, if there is one. What appends it has
// mu.
func (s *Stdio) write(message func(dst []byte) []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = message(s.line[:0])
	if len(s.line) == 0 {
		return nil
	}
	_, err := s.out.Write(append(s.line, '\n'))
	return err
}
