package simulate

import (
	"strings"
	"testing"
	"time"
)

// The last worker is cut off from the scheduler for longer than its lease, while another one waits
// to be taken in: its place is kept, it comes back with its own identity, and the job finishes.
func TestTheLastWorkerIsWaitedFor(t *testing.T) {
	plan := Plan{
		Config: Config{Elastic: true, Journal: true}, Seed: 300678, Workers: 2, Servers: 2, Program: Sums, Keys: 3, Steps: 42, Jitter: 12 * time.Millisecond,
		Faults: []Fault{
			{At: 177 * time.Millisecond, Kind: KillScheduler, For: 5397 * time.Millisecond}, {At: 1169 * time.Millisecond, Kind: Join, A: "worker2"},
			{At: 1339 * time.Millisecond, Kind: Drop, A: "worker1", B: "scheduler", For: 8 * time.Second},
			{At: 1577 * time.Millisecond, Kind: Break, A: "worker0", B: "server1", For: 1791 * time.Millisecond},
		},
	}
	for range 60 / stride() {
		r := simulate(t, plan)
		if len(r.Wrong) > 0 || !r.Finished {
			t.Fatalf("%v%q, finished %v", &plan, r.Wrong, r.Finished)
		}
		if want := "no other worker is left that could go on"; !strings.Contains(r.Trace, want) {
			t.Fatalf("the trace has no %q: the plan does not meet what it is for:\n%s", want, r.Trace)
		}
	}
}

// A worker that is done and cannot reach the scheduler ends cleanly after a while. Its steps count,
// and the job finishes by the word of whoever started it.
func TestAWorkerThatCannotSayThatItIsDoneFailsNothing(t *testing.T) {
	for _, test := range []struct {
		name    string
		journal bool
		workers int
	}{{"the only one", false, 1}, {"one of two, of a job that is kept", true, 2}} {
		t.Run(test.name, func(t *testing.T) {
			plan := Plan{
				Config: Config{Elastic: true, Journal: test.journal}, Seed: 1, Workers: test.workers, Servers: 2, Program: Counts, Examples: 40, Batch: 4, Epochs: 2, Launcher: true,
				Jitter: time.Millisecond,
				Faults: []Fault{{At: 900 * time.Millisecond / time.Duration(test.workers), Kind: Drop, A: "worker0", B: "scheduler", For: time.Hour}},
			}
			r := simulate(t, plan)
			if len(r.Wrong) > 0 || !r.Finished || r.Lost != 0 || r.Doubled != 0 {
				t.Fatalf("%v%q, finished %v, examples lost %d, doubled %d", &plan, r.Wrong, r.Finished, r.Lost, r.Doubled)
			}
			if want := "leave request did not reach the scheduler"; !strings.Contains(r.Trace, want) {
				t.Fatalf("the trace has no %q: the plan does not meet what it is for:\n%s", want, r.Trace)
			}
		})
	}
}

// A scheduler that is cut off from everybody for longer than the lease declares no node lost.
func TestASchedulerThatIsCutOffLosesNobody(t *testing.T) {
	plan := Plan{Config: Config{Elastic: true, Journal: true, Backups: 1}, Seed: 1, Workers: 3, Servers: 2, Program: Counts, Examples: 400, Batch: 2, Epochs: 2, Jitter: time.Millisecond}
	for _, host := range []string{"worker0", "worker1", "worker2", "server0", "server1"} {
		plan.Faults = append(plan.Faults, Fault{At: 500 * time.Millisecond, Kind: Drop, A: host, B: "scheduler", For: 2 * lease})
	}
	r := simulate(t, plan)
	if len(r.Wrong) > 0 || !r.Finished || strings.Contains(r.Trace, "LOST") {
		t.Fatalf("%v%q, finished %v:\n%s", &plan, r.Wrong, r.Finished, r.Trace)
	}
}

// A scheduler that is killed is not killed once more while its process still ends: it would start
// twice, and the second one would find its address taken.
func TestASchedulerThatIsKilledTwiceStartsOnce(t *testing.T) {
	plan := Plan{
		Config: Config{Journal: true, PerHost: 2}, Seed: 21063, Workers: 3, Servers: 2, Program: Sums, Keys: 3, Steps: 66, Launcher: true, Jitter: 9 * time.Millisecond,
		Faults: []Fault{
			{At: 457 * time.Millisecond, Kind: Break, A: "server0", B: "scheduler", For: 1713 * time.Millisecond},
			{At: 514 * time.Millisecond, Kind: Slow, A: "worker2", B: "worker1", For: 3786 * time.Millisecond},
			{At: 844 * time.Millisecond, Kind: KillScheduler, For: 967 * time.Millisecond},
			{At: 1542 * time.Millisecond, Kind: KillScheduler, For: 180 * time.Millisecond},
			{At: 1613 * time.Millisecond, Kind: Cut, A: "worker0", B: "server0"},
		},
	}
	for range 60 / stride() {
		if r := simulate(t, plan); len(r.Wrong) > 0 || !r.Finished {
			t.Fatalf("%v%q, finished %v", &plan, r.Wrong, r.Finished)
		}
	}
}
