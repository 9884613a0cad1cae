package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-mcp/holdfast/config"
)

// replicasTimeout bounds the question; maxReplicas the answer.
const (
	replicasTimeout = 10 * time.Second
	maxReplicas     = 4 << 20
)

// runReplicas lists the live replicas as one of them knows them.
func runReplicas(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	const name, help = "holdfast replicas", "holdfast help replicas"
	fs := newFlags(name)
	config.AddFlags(fs)
	raw := fs.Bool("json", false, "")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return printed(stdout, stderr, name, replicasUsage)
	} else if err != nil {
		return misused(stderr, name, err, help)
	}
	if fs.NArg() > 1 {
		return misused(stderr, name, fmt.Errorf("unexpected argument %q", fs.Arg(1)), help)
	}
	address := fs.Arg(0)
	if address == "" {
		c, err := config.Load(fs, environ)
		if err != nil {
			return misused(stderr, name, err, help)
		}
		address = c.Admin
	}
	if address == "" {
		return misused(stderr, name, errors.New("no admin address: give it, HOLDFAST_ADMIN or --admin"), help)
	}
	text, err := askReplicas(ctx, address)
	if err != nil {
		return failed(stderr, name, err)
	}
	if *raw {
		return printed(stdout, stderr, name, string(text))
	}
	var known Replicas
	if err := json.Unmarshal(text, &known); err != nil {
		return failed(stderr, name, fmt.Errorf("%s: not the answer of a holdfast replica: %w", address, err))
	}
	return printed(stdout, stderr, name, known.table())
}

func askReplicas(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, replicasTimeout)
	defer cancel()
	if host, port, err := net.SplitHostPort(address); err == nil && (host == "" || net.ParseIP(host).IsUnspecified()) {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/replicas", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxReplicas))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", request.URL, response.Status)
	}
	return text, nil
}

// table is the list for people.
func (r *Replicas) table() string {
	var out strings.Builder
	fmt.Fprintf(&out, "bus: %s", r.Bus)
	if !r.Connected {
		fmt.Fprintf(&out, ", not reached: %s", r.Reason)
	}
	out.WriteString("\n\n")
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "replica\tversion\tuptime\trounds\tcalls\tparked\treleased\tsessions\tround trip\t")
	for _, one := range r.Replicas {
		note := ""
		switch {
		case one.Self:
			note = "asked"
		case one.Leaving:
			note = "stopping"
		}
		trip := "-"
		if one.RoundTrip > 0 {
			trip = time.Duration(one.RoundTrip * float64(time.Second)).Round(time.Microsecond).String()
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", one.ID, one.Version,
			time.Duration(one.Uptime*float64(time.Second)).Round(time.Second), one.Rounds, one.Calls, one.Parked, one.Released, one.Sessions, trip, note)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return out.String()
}
