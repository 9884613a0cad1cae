package legacy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/legacy/child"
	"github.com/holdfast-mcp/holdfast/adapter/lines"
)

// pipes is the channel to a process of the session's own. Spec 2025-11-25,
// basic/transports, "stdio".
type pipes struct {
	session *Session
	process *child.Process
	begun   time.Time
}

// openPipes starts the session's process, after the pause that is due.
func (s *Session) openPipes(ctx context.Context) error {
	server := s.server
	if err := server.restarts.await(ctx); err != nil {
		return err
	}
	log := server.log.With().Str("upstream", server.settings.Name).Logger()
	process, err := child.Start(server.settings.Command.child(), log)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	p := &pipes{session: s, process: process, begun: time.Now()}
	server.restarts.started()
	s.attach(p, p.read)
	return nil
}

// read routes what the process says. Its messages are lines.
func (p *pipes) read() error {
	s := p.session
	for {
		line, err := p.process.Next()
		var long *lines.TooLong
		switch {
		case err == nil:
			s.take(line)
		case errors.As(err, &long):
			s.takeLong(long.Head, long.Tail, long.Size)
		default:
			return p.ended(err)
		}
	}
}

// ended says how the process has ended, of which no more can be read, and why not.
func (p *pipes) ended(why error) error {
	s := p.session
	story := p.process.Story(storyWait)
	if errors.Is(why, child.ErrNotRead) {
		story = why.Error() + "; " + story
	}
	s.mu.Lock()
	ours := s.closed
	s.mu.Unlock()
	s.server.restarts.ended(ours, time.Since(p.begun), story)
	if !ours {
		s.server.log.Warn().Str("upstream", s.server.settings.Name).Int("pid", p.process.PID()).Str("end", story).
			Msg("process of the upstream is lost")
	}
	return fmt.Errorf("%w: %s", ErrBroken, story)
}

// storyWait is how long the calls of a process whose output has ended wait to be
// told how it has ended itself.
const storyWait = 250 * time.Millisecond

// line is a message as one line. Between the tokens of JSON, line feeds are
// space; inside them there are none.
func line(text []byte) *[]byte {
	space := texts.Get().(*[]byte)
	b := append((*space)[:0], text...)
	for i, c := range b {
		if c == '\n' || c == '\r' {
			b[i] = ' '
		}
	}
	*space = append(b, '\n')
	return space
}

// try implements channel.
func (p *pipes) try(text []byte) bool {
	l := line(text)
	defer freeSpace(l)
	return p.process.TryWrite(*l, p.session.server.settings.WriteTimeout)
}

// post implements channel.
func (p *pipes) post(ctx context.Context, _ Credentials, text []byte, _ *Exchange) (taken bool, err error) {
	l := line(text)
	defer freeSpace(l)
	err = p.process.Write(ctx, *l, p.session.server.settings.WriteTimeout)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil && !errors.Is(err, child.ErrCut):
		return false, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	p.session.forget() // before whoever sends the message again looks for a session
	if errors.Is(err, child.ErrCut) {
		return false, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return false, fmt.Errorf("%w: %w", ErrUnsent, err)
}

// close implements channel.
func (p *pipes) close(ctx context.Context) { p.process.Close(ctx) }
