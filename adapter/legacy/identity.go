package legacy

// ID is the session's Mcp-Session-Id, or "".
func (s *Session) ID() string { return s.id }

// Key says which calls may share the session.
func (s *Session) Key() Key { return s.entry.key }

// Upstream is the name of the session's upstream.
func (s *Session) Upstream() string { return s.server.settings.Name }
