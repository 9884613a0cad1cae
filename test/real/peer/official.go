package peer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// Official is the official client of the tasks extension. It is a program of its
// own (test/real/official/tasks.mjs) that calls tools and follows the tasks that
// they become, and does nothing else.
type Official struct {
	identity Identity
	process  *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Reader
	said     tail
	asked    []Question
	// Leaving has each call's task finished by another client than the one that
	// has made the call, by what that one wrote down.
	Leaving bool
}

// officialCall is what the program is told to call.
type officialCall struct {
	Name      any  `json:"name"`
	Arguments any  `json:"arguments"`
	Leave     bool `json:"leave"`
}

// officialOutcome is what the program says of it.
type officialOutcome struct {
	Failure string          `json:"failure"`
	Kind    string          `json:"kind"` // "task", or "immediate"
	Seen    []string        `json:"seen"` // statuses of the task
	Asked   []officialAsked `json:"asked"`
	Result  json.RawMessage `json:"result"`
}

type officialAsked struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// StartOfficial starts the program with the endpoint and what the client is to say
// as its last arguments.
func StartOfficial(command Command, url string, identity Identity) (*Official, error) {
	who, err := json.Marshal(map[string]any{"info": identity.info(), "capabilities": identity.Capabilities, "answers": identity.Answers})
	if err != nil {
		return nil, err
	}
	c := &Official{identity: identity, process: exec.Command(command.Path, append(command.Args, url, string(who))...)}
	c.process.Env, c.process.Dir, c.process.Stderr = command.Env, command.Dir, &c.said
	c.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.process.WaitDelay = commandGrace
	if c.in, err = c.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReaderSize(out, 64<<10)
	if err := c.process.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	return c, nil
}

// Hello does not exist for this client.
func (c *Official) Hello(context.Context) (Outcome, error) { return Outcome{}, errors.ErrUnsupported }

// Listen does not exist for this client.
func (c *Official) Listen(context.Context, Filter) (*Listener, error) {
	return nil, errors.ErrUnsupported
}

// Asked returns all questions that the client was asked so far.
func (c *Official) Asked() []Question { return c.asked }

// Call calls a tool. That no task comes of it is an error.
func (c *Official) Call(ctx context.Context, r Request) (Outcome, error) {
	o := Outcome{Method: r.Method}
	if r.Method != "tools/call" {
		return o, fmt.Errorf("%s: %w", r.Method, errors.ErrUnsupported)
	}
	// The program hears of no context: its end is its answer's.
	defer context.AfterFunc(ctx, func() { _ = c.process.Process.Kill() })()
	line, err := json.Marshal(officialCall{Name: r.Params["name"], Arguments: r.Params["arguments"], Leave: c.Leaving})
	if err != nil {
		return o, err
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return o, fmt.Errorf("the official client: %w: %s", err, c.said.String())
	}
	answer, err := c.out.ReadBytes('\n')
	if err != nil {
		return o, fmt.Errorf("the official client: %w: %s", errors.Join(err, context.Cause(ctx)), c.said.String())
	}
	return o, c.read(answer, &o)
}

// read reads what the program says.
func (c *Official) read(answer []byte, o *Outcome) error {
	var said officialOutcome
	if err := json.Unmarshal(answer, &said); err != nil {
		return fmt.Errorf("the official client says %.200s: %w", answer, err)
	}
	switch {
	case said.Failure != "":
		return fmt.Errorf("the official client: %s: %s", said.Failure, c.said.String())
	case said.Kind != "task":
		return fmt.Errorf("the official client sees no task: the call was %s", said.Kind)
	case len(said.Seen) == 0 || said.Seen[len(said.Seen)-1] != "completed":
		return fmt.Errorf("the official client sees the task %q", said.Seen)
	}
	for _, asked := range said.Asked {
		params, err := Decode(asked.Params)
		if err != nil {
			return err
		}
		q := question(asked.Method, params)
		o.Asked, c.asked = append(o.Asked, q), append(c.asked, q)
	}
	var err error
	o.Result, err = Decode(bytes.TrimSpace(said.Result))
	return err
}

// Close ends the program.
func (c *Official) Close(context.Context) error {
	_ = c.in.Close() // it may have ended by itself
	late := time.AfterFunc(commandGrace, func() { _ = c.process.Process.Kill() })
	defer late.Stop()
	_, _ = io.Copy(io.Discard, c.out)
	if err := c.process.Wait(); err != nil {
		return fmt.Errorf("the official client has ended: %w: %s", err, c.said.String())
	}
	return nil
}
