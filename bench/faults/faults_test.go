package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/testing/netlab"
)

// The test program is also the processes of the jobs.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(helperEnv) != "":
		if err := help(); err != nil {
			fmt.Fprintln(os.Stderr, "faults:", err)
			os.Exit(1)
		}
	case os.Getenv(roleEnv) != "":
		if err := process(); err != nil {
			fmt.Fprintln(os.Stderr, "faults:", err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

func runFault(t *testing.T, f fault) *result {
	t.Helper()
	r, err := run(t.Context(), 1, f, false)
	if errors.Is(err, netlab.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A job of real processes in network namespaces whose connections are reset ends with the values of
// a quiet one.
func TestResetConnectionsChangeNothing(t *testing.T) {
	before := training
	defer func() { training = before }()
	training.Epochs, training.Step = 1, 20*time.Millisecond
	quiet := runFault(t, fault{name: "none"})
	if quiet.trouble != "" || quiet.lost+quiet.doubled > 0 || !quiet.finished {
		t.Fatalf("without a fault: %+v", quiet)
	}
	for _, f := range networkFaults() {
		if f.name == "connections reset" {
			r := runFault(t, f)
			if r.judge(f, quiet); r.trouble != "" {
				t.Errorf("%s: %s; %s", f.name, r.did, r.trouble)
			}
		}
	}
}

// Jobs do what the table says of every fault.
func TestJobsOutliveFaults(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("some minutes: set PARAGON_TEST_SLOW=1")
	}
	quiet := runFault(t, fault{name: "none"})
	for _, f := range all() {
		t.Run(strings.ReplaceAll(f.name, " ", "-"), func(t *testing.T) {
			r := runFault(t, f)
			if r.judge(f, quiet); r.trouble != "" {
				t.Errorf("%s (%s): %s; %s", f.name, f.how, r.did, r.trouble)
			}
		})
	}
}

// What must not be is found in a job's result.
func TestResultsAreJudged(t *testing.T) {
	good := result{finished: true, bits: "a", ends: map[string]*ending{"worker0": {}}}
	for name, test := range map[string]struct {
		change func(*result)
		f      fault
		want   string
	}{
		"all is well":           {func(*result) {}, fault{same: true, within: time.Second}, ""},
		"it ended":              {func(r *result) { r.finished = false }, fault{}, "want it to go on"},
		"it did not end":        {func(*result) {}, fault{ends: true}, "want it to end"},
		"an example was lost":   {func(r *result) { r.lost = 1 }, fault{}, "1 examples lost"},
		"an example came twice": {func(r *result) { r.doubled = 2 }, fault{}, "2 doubled"},
		"other values":          {func(r *result) { r.bits = "b" }, fault{same: true}, "not those of a run without"},
		"other members":         {func(r *result) { r.bits = "b" }, fault{}, ""},
		"it stood still":        {func(r *result) { r.still = 2 * time.Second }, fault{within: time.Second}, "2.0 s without progress"},
	} {
		r := good
		test.change(&r)
		if r.judge(test.f, &good); (r.trouble == "") != (test.want == "") || !strings.Contains(r.trouble, test.want) {
			t.Errorf("%s: got %q, want %q", name, r.trouble, test.want)
		}
	}
}
