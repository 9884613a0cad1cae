package legacy

// ID is the session's Mcp-Session-Id, or "".
func (s *Session) ID() string { return s.id }

// Key says which calls may share the session.
func (s *Session) Key() Key { return s.entry.key }

// Server is what the session is with.
func (s *Session) Server() *Server { return s.server }
