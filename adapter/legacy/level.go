package legacy

import (
	"context"
	"slices"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// wantLevel returns the most verbose level that a live call wants. mu is held.
func (s *Session) wantLevel() mcp.Level {
	return mcp.Level(slices.IndexFunc(s.levels[1:], func(n int) bool { return n > 0 }) + 1)
}

// SetLevel changes which log messages the exchange wants; RaiseLevel tells the
// server.
func (x *Exchange) SetLevel(level mcp.Level) {
	s := x.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if !x.ended {
		s.levels[x.level]--
		s.levels[level]++
	}
	x.level = level
}

// RaiseLevel makes the server send log messages as verbose as the live calls
// want, and returns once it has said so. Legacy servers keep one level for the
// whole session; what a call did not ask for is filtered later.
func (s *Session) RaiseLevel(ctx context.Context, creds Credentials) error {
	if !s.LevelShort() {
		return nil
	}
	return s.setLevel(ctx, creds, raise)
}

// LevelShort reports whether a live call wants more log messages than the
// server was told to send.
func (s *Session) LevelShort() bool {
	if !s.info.Logging {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	want := s.wantLevel()
	return want != mcp.LevelNone && (s.level == mcp.LevelNone || want < s.level)
}

// levelLong reports whether the server sends more than any live call wants.
func (s *Session) levelLong() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := s.wantLevel()
	return s.level != mcp.LevelNone && s.level != mcp.LevelEmergency && (want == mcp.LevelNone || want > s.level)
}

// lowerLevel is RaiseLevel's way back. Calls of other replicas keep the level
// up.
func (s *Session) lowerLevel(ctx context.Context) error {
	lower := func(want, have mcp.Level) bool {
		return have != mcp.LevelNone && (want == mcp.LevelNone || want > have)
	}
	if err := s.setLevelAmong(ctx, s.Housekeeping(), s.levelElsewhere(ctx), lower); err != nil {
		return err
	}
	// A call that has raised it elsewhere meanwhile must not lose its messages.
	return s.setLevelAmong(ctx, s.Housekeeping(), s.levelElsewhere(ctx), raise)
}

func raise(want, have mcp.Level) bool {
	return want != mcp.LevelNone && (have == mcp.LevelNone || want < have)
}

func (s *Session) setLevel(ctx context.Context, creds Credentials, due func(want, have mcp.Level) bool) error {
	return s.setLevelAmong(ctx, creds, mcp.LevelNone, due)
}

// setLevelAmong asks the server for the level that the live calls want, here and
// elsewhere.
func (s *Session) setLevelAmong(ctx context.Context, creds Credentials, elsewhere mcp.Level, due func(want, have mcp.Level) bool) error {
	select {
	case s.levelMu <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.levelMu }()
	s.mu.Lock()
	want, have := moreVerbose(s.wantLevel(), elsewhere), s.level
	s.mu.Unlock()
	if !due(want, have) {
		return nil
	}
	if want == mcp.LevelNone {
		want = mcp.LevelEmergency // no live call wants any
	}
	params := append(jsonrpc.AppendQuote([]byte(`{"level":`), want.String()), '}')
	if _, err := s.Request(ctx, creds, mcp.MethodSetLevel, params); err != nil {
		return err
	}
	s.mu.Lock()
	s.level = want
	s.mu.Unlock()
	if s.reach() {
		// Else a call there, which the client may begin at once, could lower it.
		s.server.assure(ctx, &parcel{kind: tellLevel, id: s.id, level: want})
	}
	return nil
}
