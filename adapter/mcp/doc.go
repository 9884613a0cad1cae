// Package mcp is the vocabulary of the Model Context Protocol: the names of
// methods, headers and _meta keys, the revisions, the error codes, and what a
// modern client (2026-07-28, stateless) sees differently from a legacy one
// (2025-11-25 and earlier, with a session).
//
// It knows nothing of calls, connections or configuration.
package mcp
