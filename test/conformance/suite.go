package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// extras are scenarios that the revision does not score (the suite's own
// reference server cannot pass them) and that Holdfast has to pass all the same.
var extras = []string{"json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"}

// requirements are the suite's own list for a server of the revision.
type requirements struct {
	required  []string
	notScored []string
}

// tasks are the scenarios of the extension io.modelcontextprotocol/tasks. They run
// once more, against the server that has tasks; that run counts.
func (r requirements) tasks() (names []string) {
	for _, scenario := range r.notScored {
		if strings.HasPrefix(scenario, "tasks-") {
			names = append(names, scenario)
		}
	}
	return names
}

// all are the scenarios of a run, in the suite's order.
func (r requirements) all() []string { return slices.Concat(r.required, r.notScored) }

func readRequirements(home string) (requirements, error) {
	text, err := os.ReadFile(suitePath(home, "requirements", revision+".yaml"))
	if err != nil {
		return requirements{}, err
	}
	return parseRequirements(text)
}

func parseRequirements(text []byte) (requirements, error) {
	var file struct {
		Server    []string `yaml:"server"`
		NotScored []struct {
			Scenario string `yaml:"scenario"`
			Leg      string `yaml:"leg"`
		} `yaml:"not_scored"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return requirements{}, fmt.Errorf("requirements of %s: %w", revision, err)
	}
	wanted := requirements{required: file.Server}
	for _, entry := range file.NotScored {
		if entry.Leg == "server" {
			wanted.notScored = append(wanted.notScored, entry.Scenario)
		}
	}
	if len(wanted.required) == 0 {
		return requirements{}, fmt.Errorf("requirements of %s name no server scenario", revision)
	}
	return wanted, nil
}

// runSuite runs all scenarios. Its exit code says nothing that the records do
// not say, so only a suite that did not run is an error.
func runSuite(ctx context.Context, home, results string, timeout time.Duration, flags ...string) error {
	log, err := os.OpenFile(filepath.Join(results, "suite.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	suite := exec.CommandContext(ctx, nodePath(home), append([]string{suitePath(home, "dist", "index.js"), "server", "-o", results}, flags...)...)
	suite.Stdout, suite.Stderr = log, log
	err = suite.Run()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the suite did not end within %v, see %s: %w", timeout, log.Name(), ctx.Err())
	case err != nil && !(errors.As(err, &ended) && ended.ExitCode() == 1):
		return fmt.Errorf("the suite failed, see %s: %w", log.Name(), err)
	}
	return nil
}

// check is one line of a scenario's record.
type check struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Status      string `json:"status"` // SUCCESS, FAILURE, WARNING, SKIPPED or INFO
	Message     string `json:"errorMessage"`
}

// outcome is what came of a scenario.
type outcome struct {
	ran    bool
	checks []check
}

func (o outcome) count(status string) (n int) {
	for _, c := range o.checks {
		if c.Status == status {
			n++
		}
	}
	return n
}

// passed counts a warning as a failure: three of the required scenarios have
// nothing but warnings for what a server gets wrong.
func (o outcome) passed() bool {
	return o.ran && o.count("SUCCESS") > 0 && o.count("FAILURE") == 0 && o.count("WARNING") == 0
}

// skipped reports whether the suite has checked nothing, and says so.
func (o outcome) skipped() bool { return len(o.checks) > 0 && o.count("SKIPPED") == len(o.checks) }

// recordName is a record's folder: server-SCENARIO-TIME.
var recordName = regexp.MustCompile(`^server-(.+)-\d{4}-\d{2}-\d{2}T[0-9-]+Z$`)

// readOutcomes reads the suite's records; a scenario without one did not run.
func readOutcomes(results string, wanted requirements) (map[string]outcome, error) {
	outcomes := map[string]outcome{}
	folders, err := os.ReadDir(results)
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		match := recordName.FindStringSubmatch(folder.Name())
		if match == nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(results, folder.Name(), "checks.json"))
		if errors.Is(err, os.ErrNotExist) {
			continue // the scenario broke off
		}
		if err != nil {
			return nil, err
		}
		o := outcome{ran: true}
		if err := json.Unmarshal(text, &o.checks); err != nil {
			return nil, fmt.Errorf("%s: %w", folder.Name(), err)
		}
		outcomes[match[1]] = o
	}
	for _, scenario := range slices.Concat(wanted.all(), extras) {
		if _, ok := outcomes[scenario]; !ok {
			outcomes[scenario] = outcome{}
		}
	}
	return outcomes, nil
}
