package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Replica is a process of Holdfast at one of the fleet's places.
type Replica struct {
	Slot    int
	Process string // names this process, and no other one of its place
	Admin   string // host:port

	cmd    *exec.Cmd
	log    *os.File
	ended  chan struct{} // closed when the process is gone
	served map[string]float64
}

const (
	startWithin = 15 * time.Second
	stopWithin  = 15 * time.Second
)

// startReplica starts a process and returns once it listens.
func startReplica(ctx context.Context, slot int, binary, log, listen, admin string, args, env []string) (*Replica, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	r := &Replica{Slot: slot, Admin: admin, log: file, ended: make(chan struct{}), served: map[string]float64{}}
	r.cmd = exec.Command(binary, append([]string{"serve", "--listen", listen, "--admin", admin}, args...)...)
	r.cmd.Env = append(environ(), env...)
	r.cmd.Stderr, r.cmd.Stdout = file, file
	if err := r.cmd.Start(); err != nil {
		_ = file.Close()
		return nil, err
	}
	go func() { // ends with the process, which stop sees to
		_ = r.cmd.Wait() // the exit state is read from ProcessState
		close(r.ended)
	}()
	give := time.Now().Add(startWithin)
	for {
		if c, err := net.Dial("tcp", listen); err == nil {
			return r, c.Close()
		}
		select {
		case <-r.ended:
			return nil, fmt.Errorf("replica %d ended at once, see %s", slot, log)
		default:
		}
		if time.Now().After(give) || !sleep(ctx, 10*time.Millisecond) {
			return nil, errors.Join(fmt.Errorf("replica %d does not listen, see %s", slot, log), r.end(syscall.SIGKILL))
		}
	}
}

// environ is that of this process without settings of Holdfast.
func environ() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HOLDFAST_") {
			env = append(env, v)
		}
	}
	return env
}

// end ends the process with a signal. SIGTERM must end it cleanly. Its metrics
// are read as long as it answers.
func (r *Replica) end(signal syscall.Signal) error {
	r.scrape()
	_ = r.cmd.Process.Signal(signal) // fails only where it has ended
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	defer func() { _ = r.log.Close() }() // written by the process
	for give := time.Now().Add(stopWithin); ; {
		select {
		case <-r.ended:
			if signal == syscall.SIGTERM && !r.cmd.ProcessState.Success() {
				return fmt.Errorf("replica %d ended with %s after SIGTERM, see %s", r.Slot, r.cmd.ProcessState, r.log.Name())
			}
			return nil
		case now := <-tick.C:
			if now.After(give) {
				_ = r.cmd.Process.Signal(syscall.SIGABRT) // its stacks go to the log
				<-r.ended
				return fmt.Errorf("replica %d did not end within %v, see %s", r.Slot, stopWithin, r.log.Name())
			}
			r.scrape()
		}
	}
}

// died reports whether the process has ended.
func (r *Replica) died() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

func (r *Replica) get(path string) ([]byte, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Second}
	response, err := client.Get("http://" + r.Admin + path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // only read
	return io.ReadAll(io.LimitReader(response.Body, 1<<20))
}

const roundsTotal = `holdfast_rounds_total{served="`

// scrape notes how rounds were served so far. A replica that does not answer
// keeps what it said last.
func (r *Replica) scrape() {
	body, err := r.get("/metrics")
	if err != nil {
		return
	}
	for line := range bytes.Lines(body) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(string(line)), roundsTotal)
		served, value, ok2 := strings.Cut(rest, `"} `)
		if n, err := strconv.ParseFloat(value, 64); ok && ok2 && err == nil {
			r.served[served] = n
		}
	}
}

// status is what /replicas says of the replica itself.
type status struct {
	Self     bool
	Rounds   int
	Calls    int
	Parked   int
	Released int
	Sessions int
}

// status asks the replica how it is, and how many others it knows.
func (r *Replica) status() (own status, peers int, err error) {
	body, err := r.get("/replicas")
	if err != nil {
		return own, 0, err
	}
	var list struct{ Replicas []status }
	if err := json.Unmarshal(body, &list); err != nil {
		return own, 0, fmt.Errorf("/replicas: %w: %.200s", err, body)
	}
	for _, each := range list.Replicas {
		if each.Self {
			own = each
		}
	}
	return own, len(list.Replicas) - 1, nil
}

// goroutines is how many the process has.
func (r *Replica) goroutines() (int, error) {
	body, err := r.get("/metrics")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(body) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "go_goroutines "); ok {
			return strconv.Atoi(value)
		}
	}
	return 0, errors.New("/metrics does not say how many goroutines there are")
}

// peak is the most memory that the process has had resident, in bytes.
func (r *Replica) peak() (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		if kib, ok := strings.CutPrefix(string(line), "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kib), "kB")))
			return n << 10, err
		}
	}
	return 0, errors.New("its status does not say how much memory it has had")
}

// files are the process's open file descriptors, by what they are.
func (r *Replica) files() (map[string]int, error) {
	dir := fmt.Sprintf("/proc/%d/fd", r.cmd.Process.Pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	kinds := map[string]int{}
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		kind, _, _ := strings.Cut(to, ":")
		if to == r.log.Name() {
			kind = "log"
		}
		kinds[kind]++
	}
	return kinds, nil
}
