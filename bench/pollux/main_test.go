package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/adapt/allocate"
	"github.com/paragon-train/paragon/bench/pollux/internal/trace"
	"github.com/paragon-train/paragon/bench/pollux/internal/trace/tracetest"
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

// The simulator is the published one: each job of the two policies without randomness ends in the
// very second that was published.
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
			o, err := simulate(testbed, apps, workload, p.make(options{}))
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

// The means over the five workloads against those published for Pollux: at its own cost of a
// restart, and where a change is made live.
func TestMeanCompletionAgainstPollux(t *testing.T) {
	folder := data(t)
	if !slow() {
		t.Skip("simulates ten days of a cluster; set PARAGON_TEST_SLOW")
	}
	apps, err := trace.Load(filepath.Join(folder, "traces"))
	if err != nil {
		t.Fatal(err)
	}
	published, err := trace.LoadPublished(filepath.Join(folder, "published.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cost  int
		ratio float64
	}{{30, 0.95}, {2, 0.85}} {
		var rows []row
		for _, n := range []int{1, 2, 3, 4, 6} {
			workload, err := trace.LoadWorkload(filepath.Join(folder, "workloads", workloadName(n)+".csv"))
			if err != nil {
				t.Fatal(err)
			}
			s := testbed
			s.cost = c.cost
			o, err := simulate(s, apps, workload, newParagon(allocate.Completion))
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, summarize(o, published["pollux"][workloadName(n)]))
		}
		if m := mean("paragon", rows); m.mean > c.ratio*m.published {
			t.Errorf("with %d s for a change jobs take %.1f s, %.3f of the published %.1f s; want at most %.2f", c.cost, m.mean, m.mean/m.published, m.published, c.ratio)
		}
	}
}

func TestEveryPolicyFinishesItsJobs(t *testing.T) {
	folder := tracetest.Write(t)
	var out bytes.Buffer
	app := newApp()
	app.Writer = &out
	if err := app.Run([]string{"pollux", "--data", folder, "--workloads", "1", "--nodes", "2", "--restart-cost", "5s", "--generations", "2", "--jobs"}); err != nil {
		t.Fatal(err)
	}
	for _, p := range policies {
		if !regexp.MustCompile(`(?m)^\| ` + p.name + ` +\| 1 +\| [1-9][0-9.]+ +\| - +\| - `).MatchString(out.String()) {
			t.Errorf("policy %s has no row in\n%s", p.name, &out)
		}
	}
	if n := strings.Count(out.String(), "| job-4 "); n != len(policies) {
		t.Errorf("job-4 is listed %d times, want once for each of %d policies:\n%s", n, len(policies), &out)
	}
}

// A job of one replica alone: it starts a cycle after it came, and takes its steps.
func TestJobsTakeWhatTheirTracesSay(t *testing.T) {
	apps, err := trace.Load(filepath.Join(tracetest.Write(t), "traces"))
	if err != nil {
		t.Fatal(err)
	}
	for _, cost := range []int{0, 30} {
		s := settings{nodes: 1, slots: 1, cycle: 60, cost: cost}
		o, err := simulate(s, apps, []trace.Job{{Name: "a", Arrival: 30, Application: "ncf", Replicas: 1, Batch: 32}}, newTiresias())
		if err != nil {
			t.Fatal(err)
		}
		step, _ := tracetest.StepTime(1, 1, 32)

		// At the initial batch the gain is 1.
		want := 30 + cost + 3*int(1000*step+0.5)
		if got := o.jobs[0].ended - 30; got != want || o.jobs[0].restarts != 0 {
			t.Errorf("with %d s for a start the job took %d s and %d restarts, want %d and 0", cost, got, o.jobs[0].restarts, want)
		}
	}
}

func TestInterferenceSlowsJobsThatShareANode(t *testing.T) {
	apps, err := trace.Load(filepath.Join(tracetest.Write(t), "traces"))
	if err != nil {
		t.Fatal(err)
	}
	// Tiresias takes free slots wherever they are: both jobs have a replica on the second node.
	workload := []trace.Job{{Name: "a", Application: "bert", Replicas: 3, Batch: 96}, {Name: "b", Application: "bert", Replicas: 3, Batch: 96}}
	var took [2]int
	for i, interference := range []float64{0, 0.5} {
		o, err := simulate(settings{nodes: 3, slots: 2, cycle: 60, interference: interference}, apps, workload, newTiresias())
		if err != nil {
			t.Fatal(err)
		}
		took[i] = o.jobs[0].ended
	}
	// Both start at 60 s.
	if alone, shared := took[0]-60, took[1]-60; shared < 2*alone-6 || shared > 2*alone+6 {
		t.Errorf("a job that shares a node ran for %d s, and for %d s where that costs half of its speed", alone, shared)
	}
}

func TestBadFlagsAreRefused(t *testing.T) {
	folder := tracetest.Write(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--policy", "fifo"}, `--policy has "fifo", want some of tiresias, optimus, pollux, paragon`},
		{[]string{"--restart-cost", "1500ms"}, "--restart-cost is 1.5s, want whole seconds"},
		{[]string{"--cycle", "0s"}, "--cycle is 0s, want whole seconds, at least 1s"},
		{[]string{"--nodes", "17"}, "--nodes is 17, want 1 to 16"},
		{[]string{"--slots", "0"}, "--slots is 0, want 1 to 4"},
		{[]string{"--interference", "1"}, "--interference is 1, want 0 to less than 1"},
		{[]string{"--generations", "0"}, "--generations is 0, want at least 1"},
		{[]string{"--workloads", "9"}, "workload-9.csv is missing"},
		{[]string{"more"}, `got "more", want flags only`},
	} {
		app := newApp()
		app.Writer = &bytes.Buffer{}
		if err := app.Run(append([]string{"pollux", "--data", folder}, c.args...)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got error %v, want %q", c.args, err, c.want)
		}
	}
}
