package load

import (
	"fmt"

	"github.com/holdfast-mcp/holdfast/test/bench/wire"
)

// Piped is one caller of a legacy client (2025-11-25) at a server's pipes.
type Piped struct {
	caller
	echo, ask *request
	text      []byte
	id        uint64
}

// Initialize opens the session that all callers at the lines share.
func (l *Lines) Initialize() error {
	answer, err := caller{l, 0}.message([]byte(`{"jsonrpc":"2.0","id":` + fmt.Sprint(first) + `,"method":"initialize","params":` +
		`{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{}}},"clientInfo":{"name":"bench","version":"1.0.0"}}}` + "\n"))
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if wire.Get(answer, "result", "protocolVersion") == nil {
		return fmt.Errorf("initialize: %w: %s", ErrAnswer, excerpt(answer))
	}
	return l.send([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"))
}

// NewPiped returns the caller of a slot.
func NewPiped(l *Lines, slot int) *Piped {
	return &Piped{
		caller: caller{l, slot}, echo: newRequest("", legacyCall("echo")), ask: newRequest("", legacyCall("ask")),
		id: first + uint64(slot)*perSlot,
	}
}

// Echo calls the tool echo once.
func (p *Piped) Echo() error {
	p.id++
	answer, err := p.message(p.echo.with(p.id, p.id))
	if err != nil {
		return err
	}
	if !call(p.id).echoed(resultText(wire.Get(answer, "result"))) {
		return fmt.Errorf("%w: %s", ErrAnswer, excerpt(answer))
	}
	return nil
}

// Ask calls the tool ask and answers its question. Nobody else may be at the
// lines.
func (p *Piped) Ask() error {
	p.id++
	number := call(p.id)
	question, err := p.message(p.ask.with(p.id, p.id))
	if err != nil {
		return err
	}
	id := wire.Get(question, "id")
	if string(wire.Get(question, "method")) != `"elicitation/create"` || id == nil {
		return fmt.Errorf("%w: no question: %s", ErrAnswer, excerpt(question))
	}
	p.text = append(append(append(p.text[:0], `{"jsonrpc":"2.0","id":`...), id...), `,"result":`...)
	p.text = append(number.appendAnswer(p.text), "}\n"...)
	answer, err := p.message(p.text)
	if err != nil {
		return err
	}
	if !number.asked(resultText(wire.Get(answer, "result")), 0) {
		return fmt.Errorf("%w: %s", ErrAnswer, excerpt(answer))
	}
	return nil
}
