package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-mcp/holdfast/cmd/internal/modern"
)

// elicitActions are the three ways to answer an elicitation (spec,
// client/elicitation, "Response Actions").
var elicitActions = []string{"accept", "decline", "cancel"}

// elicitResult is an ElicitResult; content is nil unless a form was sent.
func elicitResult(action string, content jsontext.Value) jsontext.Value {
	members := []modern.Member{{Name: "action", Value: modern.Quote(action)}}
	if content != nil {
		members = append(members, modern.Member{Name: "content", Value: content})
	}
	return modern.Object(members...)
}

// askLink shows the page that a URL elicitation wants opened, whole and with
// its host, and asks for consent. It never opens or fetches it (spec,
// client/elicitation, "Safe URL Handling").
func askLink(ctx context.Context, t *terminal, params jsontext.Value) (jsontext.Value, error) {
	message, _ := modern.Text(modern.Get(params, "message"))
	address, _ := modern.Text(modern.Get(params, "url"))
	page, err := url.Parse(address)
	if err != nil || page.Scheme == "" {
		return nil, fmt.Errorf("%w: the page's address %q is no URL", modern.ErrBroken, address)
	}
	t.say("%s\n\n  page: %s\n  host: %s\n", indented(message), oneLine(address), shownHost(page))
	t.say("  Nothing is opened for you. If you trust the host, open the page yourself.\n")
	for {
		line, err := t.prompt(ctx, "  accept, decline or cancel: ")
		if err != nil {
			return nil, err
		}
		word := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(line)), "!")
		if slices.Contains(elicitActions, word) {
			return elicitResult(word, nil), nil
		}
	}
}

// shownHost writes a host so that no letter can pass for another one.
func shownHost(page *url.URL) string {
	host := page.Host
	if host == "" {
		return "(none: " + oneLine(page.Scheme) + ")"
	}
	if ascii := strconv.QuoteToASCII(host); ascii != `"`+host+`"` {
		return ascii + " (not plain ASCII: look twice)"
	}
	return host
}
