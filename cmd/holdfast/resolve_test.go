package main

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/rs/zerolog"

	"github.com/holdfast-mcp/holdfast/adapter"
)

func TestNames(t *testing.T) {
	var opened []string
	answer, failure := []string{"192.0.2.1", "2001:db8::1"}, error(nil)
	n := &names{
		upstream: "up", url: "https://mcp.example/mcp", log: zerolog.Nop(),
		open: func(url, address, id string) (adapter.Endpoint, error) {
			if url != "https://mcp.example/mcp" || id == "" {
				t.Errorf("opened %s as %q", url, id)
			}
			opened = append(opened, address)
			return adapter.Endpoint{ID: id}, nil
		},
		lookup: func(_ context.Context, host string) ([]string, error) {
			if host != "mcp.example" {
				t.Errorf("looked up %s", host)
			}
			return answer, failure
		},
	}
	endpoints, err := n.first(context.Background())
	slices.Sort(opened)
	if err != nil || len(endpoints) != 2 || !slices.Equal(opened, []string{"192.0.2.1:443", "[2001:db8::1]:443"}) {
		t.Errorf("%d endpoints at %v: %v", len(endpoints), opened, err)
	}
	opened, failure = nil, errors.New("no such host")
	if endpoints, err = n.first(context.Background()); err != nil || len(endpoints) != 1 || !slices.Equal(opened, []string{""}) {
		t.Errorf("without an answer: %d endpoints at %v: %v", len(endpoints), opened, err)
	}
}
