package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/holdfast-mcp/holdfast/test/checkout"
)

// stage is where the demo plays: the programs, and what was started of them.
type stage struct {
	out              io.Writer
	holdfast, server string
	started          []*process
	scenes           int
}

// Answers to what book_table asks, by input request key.
const (
	formKey, formAnswer = "elicitation-1", `{"guests":4,"time":"21:00","name":"Ada"}`
	noteKey, noteAnswer = "sampling-1", `"Four at nine, and one of them is hungry."`
)

// play plays the demo; clear ends what it started.
func (s *stage) play(ctx context.Context) error {
	legacy, err := s.startServer(ctx)
	if err != nil {
		return err
	}
	s.scene("A legacy server", "It runs at "+legacy+" and speaks 2025-11-25 and earlier: sessions, and questions",
		"that it pushes to its client in the middle of a call. A modern, stateless client gets nowhere:")
	refused, err := s.client(ctx, legacy, "--discover")
	if err != nil {
		return err
	}
	if err := refused.expect("the legacy server refuses server/discover", refused.code != 0); err != nil {
		return err
	}

	modern, err := s.startProxy(ctx, legacy)
	if err != nil {
		return err
	}
	s.scene("Holdfast in front of it", "holdfast serve listens at "+modern+". Now the client asks who is there.")
	discovered, err := s.client(ctx, modern, "--discover", "--trace")
	if err != nil {
		return err
	}
	if err := discovered.expect("discover succeeds and names the revision", discovered.code == 0,
		strings.Contains(discovered.stdout, "2026-07-28")); err != nil {
		return err
	}

	s.scene("The tools", "Every request is complete in itself: no handshake came before this one, and no session follows.")
	listed, err := s.client(ctx, modern, "--list", "--trace", "--trace-lines", "40")
	if err != nil {
		return err
	}
	if err := listed.expect("the list has book_table", listed.code == 0, strings.Contains(listed.stdout, "book_table")); err != nil {
		return err
	}
	return s.book(ctx, modern)
}

// book plays the call that stops twice to ask.
func (s *stage) book(ctx context.Context, modern string) error {
	s.scene("A call that asks twice", "book_table stops in the middle: first for a form, then for a text. Each time the answer is",
		"input_required with a sealed requestState; the client lets go, and comes back with a new request that carries",
		"the answer and the state. Meanwhile Holdfast keeps the legacy session and its open stream.",
		"(The client reads the tool's schema first, because it may want arguments repeated in headers.)")
	booked, err := s.client(ctx, modern, "book_table", "--arg", "restaurant=The Anchor", "--trace", "--trace-lines", "100", "--log-level", "info",
		"--answer", formKey+"="+formAnswer, "--answer", noteKey+"="+noteAnswer)
	if err != nil {
		return err
	}
	if err := booked.expect("the call is sent three times and answered input_required twice",
		booked.code == 0,
		strings.Count(booked.stderr, "Mcp-Method: tools/call") == 3,
		strings.Count(booked.stderr, `"resultType": "input_required"`) == 2,
		strings.Count(booked.stderr, `"inputResponses": {`) == 2,
	); err != nil {
		return err
	}
	if err := booked.expect("the result has both answers in it", strings.Contains(booked.stdout, "4 guests at 21:00"),
		strings.Contains(booked.stdout, "one of them is hungry")); err != nil {
		return err
	}
	s.scene("Done", "To the legacy server this was one call on one session; its client left twice, and it never knew.",
		"Try it yourself: start make run UPSTREAM=<url of your server>, then",
		"    holdfast call http://127.0.0.1:8080/mcp TOOL --arg name=value",
		"and answer the questions in the terminal.")
	return nil
}

// clear stops what was started, the last first.
func (s *stage) clear() error {
	var errs []error
	for i := len(s.started) - 1; i >= 0; i-- {
		errs = append(errs, s.started[i].stop())
	}
	return errors.Join(errs...)
}

// scene prints a heading and a few words.
func (s *stage) scene(title string, words ...string) {
	s.scenes++
	heading := fmt.Sprintf("━━ %d. %s ", s.scenes, title)
	_, _ = fmt.Fprintf(s.out, "\n%s%s\n", heading, strings.Repeat("━", max(0, 100-len([]rune(heading)))))
	for _, line := range words {
		_, _ = fmt.Fprintln(s.out, line)
	}
}

// startServer starts the legacy server and returns its URL.
func (s *stage) startServer(ctx context.Context) (string, error) {
	server, first, err := start("the legacy server", s.server, "-listen", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s.started = append(s.started, server)
	return server.firstLine(ctx, first)
}

// startProxy starts holdfast serve on a free port and waits until it answers
// server/discover.
func (s *stage) startProxy(ctx context.Context, upstream string) (string, error) {
	address, err := checkout.FreeAddress(ctx)
	if err != nil {
		return "", err
	}
	proxy, _, err := start("holdfast serve", s.holdfast, "serve", "--listen", address, "--upstream", upstream)
	if err != nil {
		return "", err
	}
	s.started = append(s.started, proxy)
	endpoint := "http://" + address + "/mcp"
	const every, patience = 100 * time.Millisecond, 20 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("holdfast serve is not ready after %v", patience))
	defer cancel()
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		probe := exec.CommandContext(ctx, s.holdfast, "call", endpoint, "--discover", "--timeout", "2s")
		output, err := probe.CombinedOutput()
		if err == nil {
			return endpoint, nil
		}
		select {
		case <-ticks.C:
		case <-proxy.ended:
			return "", proxy.gone()
		case <-ctx.Done():
			return "", fmt.Errorf("%w; the last answer was %s", context.Cause(ctx), output)
		}
	}
}
