package legacy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-mcp/holdfast/adapter/jsonrpc"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// tools remembers, for one key, which tools mirror arguments into headers. Few
// do, and only those are kept.
type tools struct {
	mu sync.Mutex
	listing
	listed  bool      // the server has said once
	err     error     // why it was not listed last
	until   time.Time // zero: not known
	pending chan struct{}
}

// listing is what is kept of the answers to tools/list.
type listing struct {
	rules    map[string][]mcp.ParamRule
	harmless map[string]struct{}
	tasks    map[string]mcp.TaskSupport // of the tools that may run as tasks
}

// maxRuled bounds the tools whose rules are kept.
const maxRuled = 1024

// maxHarmless bounds the tools that are remembered as harmless, and those that
// run as tasks.
const maxHarmless = 4096

// maxPages bounds how many pages of tools/list are read.
const maxPages = 64

// away is how long a server that was not reached is not asked again.
const away = 250 * time.Millisecond

// Rules returns the header rules of a tool, if what tools/list said is known
// and fresh.
//
// Hot: once per tools/call.
func (s *Session) Rules(tool []byte) (rules []mcp.ParamRule, known bool) {
	if !s.info.Tools {
		return nil, true
	}
	t := &s.entry.tools
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.until.IsZero() || time.Now().After(t.until) {
		return nil, false
	}
	return t.rules[string(tool)], true
}

// Harmless reports whether the tool is known to be read-only or idempotent, so
// that it may run twice: spec 2025-11-25, server/tools, "ToolAnnotations". The
// annotations are the server's word, and were read with the header rules.
func (s *Session) Harmless(tool []byte) bool { return s.entry.tools.isHarmless(tool) }

// Harmless is what the sessions of a key say, as far as there are any.
func (s *Server) Harmless(key *Key, tool []byte) bool {
	e := s.existing(key)
	return e != nil && e.tools.isHarmless(tool)
}

func (t *tools) isHarmless(tool []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.harmless[string(tool)]
	return ok
}

// ToolsUnknown returns why nothing is known of the server's tools, or nil.
func (s *Session) ToolsUnknown() error {
	t := &s.entry.tools
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.listed {
		return nil
	}
	return t.err
}

// LoadRules asks the server for its tools, once however many calls wait. When
// that fails, it is not asked again for a while: a legacy server reads no
// Mcp-Param header, so that nothing depends on the rules but the client's view.
// What was known before stays known.
func (s *Session) LoadRules(ctx context.Context, creds Credentials) {
	t := &s.entry.tools
	for {
		t.mu.Lock()
		if !t.until.IsZero() && time.Now().Before(t.until) {
			t.mu.Unlock()
			return
		}
		pending := t.pending
		if pending == nil {
			t.pending = make(chan struct{})
			t.mu.Unlock()
			break
		}
		t.mu.Unlock()
		select {
		case <-pending:
		case <-ctx.Done():
			return
		}
	}
	read, err := s.readTools(ctx, creds)
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.pending)
	t.pending = nil
	ttl := s.server.settings.ToolsTTL
	if t.err = err; err != nil {
		if ctx.Err() != nil {
			return
		}
		s.server.noisy.Warn().Err(err).Str("upstream", s.server.settings.Name).Msg("tools not listed: Mcp-Param headers go unchecked")
		ttl = min(ttl, 10*time.Second)
		if errors.Is(err, ErrUnreachable) || errors.Is(err, ErrBroken) {
			ttl = min(ttl, away)
		}
	} else {
		t.listing, t.listed = read, true
	}
	t.until = time.Now().Add(ttl)
}

func (s *Session) readTools(ctx context.Context, creds Credentials) (read listing, err error) {
	read.harmless = make(map[string]struct{})
	var params []byte
	for range maxPages {
		result, err := s.Request(ctx, creds, mcp.MethodToolsList, params)
		if err != nil {
			return listing{}, err
		}
		if s.addTools(&read, result); len(read.rules) > maxRuled {
			return listing{}, fmt.Errorf("%w: more than %d tools mirror arguments into headers", ErrMalformed, maxRuled)
		}
		cursor := jsonrpc.Get(result, "nextCursor")
		if !jsonrpc.IsString(cursor) {
			return read, nil
		}
		params = append(append([]byte(`{"cursor":`), cursor...), '}')
	}
	return read, fmt.Errorf("%w: more than %d pages of tools", ErrMalformed, maxPages)
}

func (s *Session) addTools(read *listing, result []byte) {
	list := jsonrpc.Array(jsonrpc.Get(result, "tools"))
	for list.Next() {
		name, ok := jsonrpc.Unquote(jsonrpc.Get(list.Value(), "name"))
		if !ok {
			continue
		}
		if len(read.harmless) < maxHarmless && IsHarmless(jsonrpc.Get(list.Value(), "annotations")) {
			read.harmless[name] = struct{}{}
		}
		if support := s.info.taskTools(list.Value()); support != mcp.TaskForbidden && len(read.tasks) < maxHarmless {
			if read.tasks == nil {
				read.tasks = make(map[string]mcp.TaskSupport)
			}
			read.tasks[name] = support
		}
		found, err := mcp.ParamRules(jsonrpc.Get(list.Value(), "inputSchema"))
		if err != nil {
			s.server.noisy.Warn().Err(err).Str("upstream", s.server.settings.Name).Str("tool", name[:min(len(name), 64)]).
				Msg("clients will leave this tool out")
			continue
		}
		if len(found) > 0 {
			if read.rules == nil {
				read.rules = make(map[string][]mcp.ParamRule)
			}
			read.rules[name] = found
		}
	}
}

// IsHarmless reports whether a tool's annotations say that it may run twice.
func IsHarmless(annotations []byte) bool {
	return string(jsonrpc.Get(annotations, "readOnlyHint")) == "true" || string(jsonrpc.Get(annotations, "idempotentHint")) == "true"
}

// forgetTools: the server said that its tools changed.
func (e *entry) forgetTools() {
	e.tools.mu.Lock()
	e.tools.until = time.Time{}
	e.tools.mu.Unlock()
}
