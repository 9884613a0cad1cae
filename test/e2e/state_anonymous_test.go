package e2e

import (
	"testing"
)

// Callers without credentials are told apart by their clientInfo where the
// operator says so: then a request state is good for the same clientInfo only.
func TestStateOfAnonymousCallers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config string
		change []func(*Message)
		taken  bool
	}{
		"client-info":                   {config: "sessions: {anonymous: client-info}", change: []func(*Message){Client("B")}},
		"client-info, without one":      {config: "sessions: {anonymous: client-info}", change: []func(*Message){Meta(metaClient, nil)}},
		"client-info, with credentials": {config: "sessions: {anonymous: client-info}", change: []func(*Message){Bearer("b")}},
		"shared":                        {config: "sessions: {anonymous: shared}", change: []func(*Message){Client("B")}, taken: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := asking(t)
			h := Start(t, Options{Upstream: to(server), Config: test.config})
			first := h.Send(t, CallTool("greet", nil, Client("A")))
			first.Asks(t, "elicitation-1")
			other := RetryOf(first, ada, test.change...)
			if !test.taken {
				refused(t, h, server, other, "state_foreign")
				other = RetryOf(first, ada) // the call goes on for whom it belongs to
			}
			if got := h.Send(t, other).Text(t); got != "greet Ada" {
				t.Errorf("got %q", got)
			}
			if n := server.ToolCalls("greet"); n != 1 {
				t.Errorf("the tool was called %d times, want once", n)
			}
		})
	}
}

// Who has credentials is known by them, whatever the client calls itself.
func TestStateOfAnotherClientOfThePrincipal(t *testing.T) {
	t.Parallel()
	server := asking(t)
	h := Start(t, Options{Upstream: to(server), Config: "sessions: {anonymous: client-info}"})
	first := h.Send(t, CallTool("greet", nil, Client("A"), Bearer("alice")))
	first.Asks(t, "elicitation-1")
	if got := h.Retry(t, first, ada, Client("B")).Text(t); got != "greet Ada" {
		t.Errorf("got %q", got)
	}
}
