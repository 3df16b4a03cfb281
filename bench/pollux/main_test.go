package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/bench/pollux/internal/trace"
)

// slow says that tests may take minutes: PARAGON_TEST_SLOW is set, as by make slowtest.
func slow() bool { return os.Getenv("PARAGON_TEST_SLOW") != "" }

// data is the folder of traces, or skips the test.
func data(t testing.TB) string {
	t.Helper()
	root := os.Getenv("PARAGON_TEST_DATA")
	if root == "" {
		t.Skip("no traces (set PARAGON_TEST_DATA to a folder with pollux in it)")
	}
	folder := filepath.Join(root, "pollux")
	if _, err := os.Stat(filepath.Join(folder, "traces")); err != nil {
		t.Skipf("no traces: %v", err)
	}
	return folder
}

var testbed = settings{nodes: 16, slots: 4, cycle: 60, cost: 30}

// The simulator is the published one: each job of the two policies without randomness ends in the very second that was published.
func TestBaselinesArePublishedOnes(t *testing.T) {
	folder := data(t)
	apps, err := trace.Load(filepath.Join(folder, "traces"))
	if err != nil {
		t.Fatal(err)
	}
	published, err := trace.LoadPublished(filepath.Join(folder, "published.json"))
	if err != nil {
		t.Fatal(err)
	}
	workloads := []int{6}
	if slow() {
		workloads = []int{1, 2, 3, 4, 6}
	}
	for _, n := range workloads {
		workload, err := trace.LoadWorkload(filepath.Join(folder, "workloads", workloadName(n)+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range policies[:2] {
			o, err := simulate(testbed, apps, workload, p.make(1))
			if err != nil {
				t.Fatal(err)
			}
			want := published[p.published][workloadName(n)]
			if len(want.Jobs) != len(o.jobs) {
				t.Fatalf("%s %s: %d jobs published, %d simulated", p.name, workloadName(n), len(want.Jobs), len(o.jobs))
			}
			for _, j := range o.jobs {
				if got := j.ended - j.Arrival; got != want.Jobs[j.Name] {
					t.Errorf("%s %s: job %s took %d s, want %d s", p.name, workloadName(n), j.Name, got, want.Jobs[j.Name])
				}
			}
		}
	}
}
