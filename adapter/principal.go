package adapter

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"

	"github.com/holdfast-mcp/holdfast/adapter/legacy"
	"github.com/holdfast-mcp/holdfast/adapter/mcp"
)

// principal is who is calling, as far as the proxy can tell. It is a digest
// without a key, so that all replicas and all keys of the ring agree on it; it
// leaves the process only inside a sealed request state.
type principal = [16]byte

// principalOf returns the caller's principal. named is false for a caller
// without credentials.
func principalOf(req *Request) (p principal, named bool) {
	var space [512]byte
	text := space[:0]
	switch {
	case req.PrincipalHeader != "":
		text = append(append(text, "header\x00"...), req.PrincipalHeader...)
	case req.Credentials.Authorization != "":
		text = append(append(text, "authorization\x00"...), req.Credentials.Authorization...)
	default:
		return p, false
	}
	sum := sha256.Sum256(text)
	return principal(sum[:16]), true
}

// bearer is whom a request state belongs to: the principal, and of callers
// without credentials those whose sessions are theirs together.
func bearer(k *legacy.Key) principal {
	if len(k.Extra) == 0 || k.Ephemeral {
		return caller(k)
	}
	h := sha256.New()
	h.Write(k.Principal[:])
	h.Write(k.Extra)
	return principal(h.Sum(nil)[:16])
}

// caller is who is calling, whoever shares the session.
func caller(k *legacy.Key) principal {
	if k.Shared {
		return k.Caller
	}
	return k.Principal
}

// newCallID returns an unguessable id.
func newCallID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails, says crypto/rand
	return id
}

// capabilityCache remembers parsed capabilities by their text: a client sends
// the same with every request.
type capabilityCache struct {
	mu     sync.RWMutex
	parsed map[string]*mcp.Capabilities
}

// maxCapabilities bounds the cache; a client cannot fill more than that.
const maxCapabilities = 1024

// get parses a request's capabilities.
//
// Hot: once per request.
func (c *capabilityCache) get(raw []byte) (*mcp.Capabilities, error) {
	c.mu.RLock()
	caps := c.parsed[string(raw)]
	c.mu.RUnlock()
	if caps != nil {
		return caps, nil
	}
	caps, err := mcp.ParseCapabilities(raw)
	if err != nil {
		return nil, err
	}
	if len(raw) > 4096 {
		return caps, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parsed == nil || len(c.parsed) >= maxCapabilities {
		c.parsed = make(map[string]*mcp.Capabilities)
	}
	c.parsed[string(raw)] = caps
	return caps, nil
}
