package proxy

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

func TestAdmin(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var ok bool
	var reasons []string
	registry := prometheus.NewRegistry()
	newMetrics(registry)
	a := NewAdmin(func(context.Context) (bool, []string) { return ok, reasons }, func() any { return []string{"one"} }, false, registry, zerolog.Nop())
	served := make(chan error, 1)
	go func() { served <- a.Serve(ln) }()
	c := (&running{addr: ln.Addr().String()}).dial(t)
	get := func(path string) (int, string) {
		c.send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, text := c.answer()
		return resp.StatusCode, text
	}
	if status, _ := get("/healthz"); status != 200 {
		t.Errorf("/healthz: %d", status)
	}
	for _, step := range []struct {
		ok      bool
		reasons []string
		status  int
		want    string
	}{
		{false, []string{"not listening yet"}, 503, `{"status":"not ready","reasons":["not listening yet"]}` + "\n"},
		{true, []string{"two: down"}, 200, `{"status":"degraded","reasons":["two: down"]}` + "\n"},
		{true, nil, 200, `{"status":"ready","reasons":[]}` + "\n"},
	} {
		ok, reasons = step.ok, step.reasons
		if status, text := get("/readyz"); status != step.status || text != step.want {
			t.Errorf("/readyz: %d %q, want %d %q", status, text, step.status, step.want)
		}
	}
	if status, text := get("/replicas"); status != 200 || text != `["one"]`+"\n" {
		t.Errorf("/replicas: %d %q", status, text)
	}
	if status, text := get("/metrics"); status != 200 || !strings.Contains(text, "\nholdfast_http_requests_in_flight 0\n") {
		t.Errorf("/metrics: %d %.200s", status, text)
	}
	if status, _ := get("/other"); status != 404 {
		t.Errorf("/other: %d", status)
	}
	if err := a.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestAdminProfiles(t *testing.T) {
	for _, on := range []bool{false, true} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		a := NewAdmin(nil, nil, on, prometheus.NewRegistry(), zerolog.Nop())
		served := make(chan error, 1)
		go func() { served <- a.Serve(ln) }()
		c := (&running{addr: ln.Addr().String()}).dial(t)
		for path, there := range map[string]bool{
			"/debug/pprof/goroutine?debug=2": on, "/debug/pprof/heap": on, "/debug/pprof/cmdline": false, "/debug/vars": false,
		} {
			c.send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n")
			resp, text := c.answer()
			if got := resp.StatusCode == 200; got != there {
				t.Errorf("profiling %t: %s: %d", on, path, resp.StatusCode)
			}
			if strings.Contains(path, "goroutine") && strings.Contains(text, "TestAdminProfiles") != on {
				t.Errorf("profiling %t: %s: %.200s", on, path, text)
			}
		}
		if err := a.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}
