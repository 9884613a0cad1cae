package proc

import (
	"fmt"
	"os"
)

// Piped is a process whose standard input and output are pipes of ours.
type Piped struct {
	*Child
	In  *os.File // what it reads
	Out *os.File // what it writes
}

// StartPiped starts a program with pipes. What it writes to standard error is
// kept for [Child.Log].
func StartPiped(name, program string, args ...string) (*Piped, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer theirOut.Close()
	p := &Piped{Child: newChild(nil, name, program, args...), In: in, Out: out}
	p.cmd.Stdin, p.cmd.Stdout = theirIn, theirOut
	if err := p.start(); err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	return p, nil
}

// Stop closes the process's standard input, ends it as [Child.Stop] does, and
// closes its standard output.
func (p *Piped) Stop() {
	p.In.Close()
	p.Child.Stop()
	p.Out.Close()
}
