package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Tool is a tool of the legacy server: what may be done for its calls when
// their replica is lost.
type Tool string

const (
	Resumable  Tool = "resumable"  // streams carry event ids: taken over, and never run twice
	Idempotent Tool = "idempotent" // annotated with idempotentHint: may run again
	ReadOnly   Tool = "read-only"  // annotated with readOnlyHint: may run again
	Unsafe     Tool = "unsafe"     // neither: its losses are told
)

// Paths of the upstreams.
const (
	resumable = "/resumable"
	plain     = "/plain"
	leaving   = "/leaving" // over stdio: its processes leave others behind, which SIGTERM does not end
)

// Endpoint is the path of the tool's upstream, in a part of the run.
func (t Tool) Endpoint(mode string) string {
	switch {
	case t == Resumable:
		return resumable
	case t == ReadOnly && mode == modeStdio:
		return leaving
	}
	return plain
}

// Replayable reports whether a call may run twice.
func (t Tool) Replayable() bool { return t == Idempotent || t == ReadOnly }

// Kind is what a question asks for.
type Kind string

const (
	Elicit   Kind = "elicitation/create"
	Sampling Kind = "sampling/createMessage"
	Roots    Kind = "roots/list"
)

// Script is what the tool does. The client sends it as the arguments.
type Script struct {
	Key      string `json:"key"`      // of the attempt: unique
	Steps    []Step `json:"steps"`    // one after the other
	Progress bool   `json:"progress"` // the server reports progress before each step
	Superior string `json:"superior"` // what becomes of a stream's connection when the stream is resumed
}

// Step is some work, and then some questions at once.
type Step struct {
	Work int    `json:"work"` // milliseconds
	Asks []Kind `json:"asks"`
}

// Twice says how a request is sent a second time.
type Twice uint8

const (
	Once     Twice = iota
	AtOnce         // two connections at the same time
	TooLate        // when the next round has been answered already
	ways     = int(TooLate) + 1
	maxSteps = 4
)

// Plan is what one client does.
type Plan struct {
	Index   int
	Dialect Dialect
	Tool    Tool
	Path    string
	Caller  int // which of the callers makes the call
	Script  Script
	Think   [maxSteps]time.Duration // before the answers to a step's questions
	Twice   [maxSteps]Twice         // of the request with those answers
	Break   int                     // the round whose connection the client breaks; -1: none
	After   time.Duration           // how soon
	Back    bool                    // it sends the same request again afterwards

	Bare   bool          // a proposal's client that sends no _meta
	Pry    bool          // another caller comes with the call's handle
	Cancel int           // after so many steps the client cancels, where it can; -1: never
	Apart  bool          // a task's answers come one by one
	Listen bool          // a task's client listens for its changes, too
	Later  time.Duration // how long after its end a task is asked for again
}

// mix is whose calls there are, and of what.
type mix struct {
	callers int
	tools   [3]int // of a hundred calls those of Resumable, Idempotent and ReadOnly; the rest is Unsafe
}

// mixes are those of the parts. Nothing of a process can be resumed. A replica
// keeps the processes of a caller until that one has been idle: there are many
// callers, so that all replicas have some.
var mixes = map[string]mix{
	modeCluster:  {6, [...]int{48, 18, 16}},
	modeExternal: {6, [...]int{48, 18, 16}},
	modeStdio:    {24, [...]int{0, 35, 35}},
}

// PlanOf makes the plan of a call from the seed, its number, and the part of the
// run.
func PlanOf(seed uint64, index int, mode string) *Plan {
	r := rand.New(rand.NewPCG(seed, uint64(index)))
	p := &Plan{Index: index, Caller: r.IntN(mixes[mode].callers), Break: -1, Tool: Unsafe}
	n := r.IntN(100)
	for i, tool := range []Tool{Resumable, Idempotent, ReadOnly} {
		if n -= mixes[mode].tools[i]; n < 0 {
			p.Tool = tool
			break
		}
	}
	p.Path = p.Tool.Endpoint(mode)
	p.Script = Script{Key: fmt.Sprintf("call-%d", index), Progress: r.IntN(2) == 0, Superior: superiors[r.IntN(len(superiors))]}
	p.Dialect, p.Cancel = MRTR, -1
	if mode != modeStdio {
		p.Dialect = spoken[index%len(spoken)]
	}
	p.Bare = !p.Dialect.Modern() && r.IntN(2) == 0
	asks := p.Dialect.Asks(p.Bare)
	for range 1 + r.IntN(maxSteps) {
		step := Step{Work: r.IntN(60)}
		if r.IntN(8) == 0 {
			step.Work += r.IntN(1200)
		}
		if asks == nil {
			step.Work += r.IntN(700)
		}
		for range 1 + r.IntN(3) {
			if asks != nil {
				step.Asks = append(step.Asks, asks[r.IntN(len(asks))])
			}
		}
		p.Script.Steps = append(p.Script.Steps, step)
	}
	for i := range maxSteps {
		p.Think[i] = time.Duration(r.IntN(900)) * time.Millisecond
		if r.IntN(10) == 0 {
			p.Think[i] += time.Duration(r.IntN(2000)) * time.Millisecond
		}
		if r.IntN(6) == 0 {
			p.Twice[i] = Twice(1 + r.IntN(ways-1))
		}
	}
	if r.IntN(12) == 0 {
		p.Break = r.IntN(len(p.Script.Steps) + 1)
		p.After = time.Duration(1+r.IntN(80)) * time.Millisecond
		p.Back = r.IntN(2) == 0
	}
	p.Pry = r.IntN(12) == 0
	if p.Dialect == Tasks || p.Dialect == Following {
		if p.Dialect == Tasks {
			p.Script.Steps[0].Work += r.IntN(600)
		}
		if r.IntN(15) == 0 {
			p.Cancel = r.IntN(len(p.Script.Steps))
		}
		p.Apart, p.Listen, p.Later = r.IntN(3) == 0, r.IntN(4) == 0, time.Duration(r.IntN(2500))*time.Millisecond
	}
	return p
}
