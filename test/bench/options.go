package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Names of what is measured.
const (
	direct   = "direct"
	nginx    = "nginx"
	holdfast = "holdfast"
)

// options are the program's flags.
type options struct {
	role        string
	listen      string
	peer        string
	profileTo   string
	get         string
	takes       time.Duration
	targets     []string
	only        string
	quick       bool
	rounds      int
	slice       time.Duration
	concurrency int
	parked      int
	released    int
	keep        int
	repeats     int
	beside      int
	resumes     int
	meeting     int
	sessions    int
	starts      int
	out         string
	binary      string
	serve       []string
	limit       time.Duration
}

// parse reads the flags. Errors name the flag, the value and what is allowed.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.role, "role", "bench", "`what` this process is: bench, mock (the legacy server), bare (an adapter that checks nothing), stdio (the server over stdio) or nats (the plain NATS server that the replicas' bus is compared with)")
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "`address` of the mock, or of the route of the NATS server")
	f.StringVar(&o.profileTo, "profile-to", "cmd/holdfast/default.pgo", "`file`, in the checkout, that the part profile writes")
	f.StringVar(&o.peer, "peer", "", "`address` of the other NATS server's route, or of the server behind the bare adapter")
	f.StringVar(&o.get, "get", "hold", "what the mock does with GET: hold (a silent stream) or 405")
	f.DurationVar(&o.takes, "takes", 0, "how long a call of the server over stdio takes before it is answered, or asks")
	targets := f.String("targets", "direct,nginx,holdfast", "`what` takes turns")
	f.StringVar(&o.only, "only", "", "one `part` only: plain, mrtr, parked, released (parked calls whose streams were let go), dialects, hop (from one replica to another), replicas (1, 2, 3 and 4 of them), stdio, or profile, which is in no other run: what -profile-to is made from")
	f.BoolVar(&o.quick, "quick", false, "fewer and shorter slices")
	f.IntVar(&o.rounds, "rounds", 7, "slices of each target")
	f.DurationVar(&o.slice, "slice", 1500*time.Millisecond, "length of a slice")
	f.IntVar(&o.concurrency, "concurrency", 16, "calls at a time, 1 to 64")
	f.IntVar(&o.parked, "parked", 10_000, "calls to park")
	f.IntVar(&o.released, "released", 100_000, "calls to park and to let go of (calls.release_after)")
	f.IntVar(&o.keep, "keep", 0, "calls that the mock keeps whose streams were left")
	f.IntVar(&o.repeats, "repeats", 3, "how often to park them, each time on a fresh process")
	f.IntVar(&o.beside, "beside", 160, "parked calls beside which others are timed; the same is done beside 16 times as many")
	f.IntVar(&o.resumes, "resumes", 800, "resumes in a slice of those through another replica")
	f.IntVar(&o.meeting, "meeting", 1000, "resumes through another replica that are in flight at once")
	f.IntVar(&o.sessions, "sessions", 200, "sessions over stdio, each with a process, of which the memory is measured")
	f.IntVar(&o.starts, "starts", 15, "starts of a server over stdio, of which the first answer is timed")
	f.StringVar(&o.out, "out", "test/bench/out", "`folder` for the report, in the checkout")
	f.StringVar(&o.binary, "holdfast", "", "`program` to measure instead of building the checkout's")
	serve := f.String("serve", "", "further `flags` for holdfast serve, separated by spaces")
	f.DurationVar(&o.limit, "limit", 12*time.Minute, "end of the run, whatever it is doing")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.targets = strings.Split(*targets, ",")
	o.serve = strings.Fields(*serve)
	if o.quick {
		given := map[string]bool{}
		f.Visit(func(f *flag.Flag) { given[f.Name] = true })
		o.shorten(given)
	}
	return o, o.check(f.Args())
}

// shorten makes the run quick, except where a flag was given.
func (o *options) shorten(given map[string]bool) {
	if !given["rounds"] {
		o.rounds = 3
	}
	if !given["slice"] {
		o.slice = 400 * time.Millisecond
	}
	if !given["repeats"] {
		o.repeats = 1
	}
	if !given["released"] {
		o.released = 10_000
	}
	if !given["resumes"] {
		o.resumes = 200
	}
	if !given["sessions"] {
		o.sessions = 64
	}
	if !given["starts"] {
		o.starts = 5
	}
}

func (o *options) check(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q", rest[0])
	}
	for _, target := range o.targets {
		if !slices.Contains([]string{direct, nginx, holdfast}, target) {
			return fmt.Errorf("-targets: %q is none of direct, nginx, holdfast", target)
		}
	}
	for _, choice := range []struct {
		flag, value string
		allowed     []string
	}{
		{"role", o.role, []string{"bench", "mock", bare, "stdio", "nats"}},
		{"get", o.get, []string{"hold", "405"}},
		{"only", o.only, []string{"", "plain", "mrtr", "parked", "released", "dialects", "hop", "replicas", "stdio", "profile"}},
	} {
		if !slices.Contains(choice.allowed, choice.value) {
			return fmt.Errorf("-%s: %q is none of %q", choice.flag, choice.value, choice.allowed)
		}
	}
	for _, number := range []struct {
		flag            string
		value, from, to int
	}{
		{"rounds", o.rounds, 1, 1000},
		{"concurrency", o.concurrency, 1, 64},
		{"parked", o.parked, 1, 100_000},
		{"released", o.released, 100, 190_000},
		{"keep", o.keep, 0, 1_000_000},
		{"repeats", o.repeats, 1, 100},
		{"beside", o.beside, 1, 6000},
		{"resumes", o.resumes, 1, 10_000},
		{"meeting", o.meeting, 1, 10_000},
		{"sessions", o.sessions, 8, 1000},
		{"starts", o.starts, 1, 1000},
	} {
		if number.value < number.from || number.value > number.to {
			return fmt.Errorf("-%s: %d is not between %d and %d", number.flag, number.value, number.from, number.to)
		}
	}
	if o.only != "" && o.only != "plain" && o.only != "mrtr" && !o.has(holdfast) {
		return fmt.Errorf("-only %s: that can be measured of holdfast alone, and -targets leaves it out", o.only)
	}
	if o.takes < 0 || o.takes > time.Minute {
		return fmt.Errorf("-takes: %s is not between 0s and 1m", o.takes)
	}
	if o.slice <= 0 {
		return fmt.Errorf("-slice: %s is not above zero", o.slice)
	}
	return nil
}

// has reports whether a target takes part.
func (o *options) has(target string) bool { return slices.Contains(o.targets, target) }

// does reports whether a part is to be measured.
func (o *options) does(part string) bool { return o.only == "" || o.only == part }

// String is what the figures depend on.
func (o options) String() string {
	return fmt.Sprintf("concurrency %d, %d slices of %s for each target, %d parked calls %d times, %d released ones, %d resumes in a slice of those between replicas, "+
		"%d sessions and %d starts over stdio",
		o.concurrency, o.rounds, o.slice, o.parked, o.repeats, o.released, o.resumes, o.sessions, o.starts)
}
