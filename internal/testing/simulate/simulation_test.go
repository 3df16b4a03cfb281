package simulate

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seedFlag  = flag.Int64("seed", -1, "run this seed alone")
	firstFlag = flag.Uint64("first", 1, "the first seed")
	timesFlag = flag.Int("times", 1, "run every seed so often: what the Go scheduler chooses differs")
	seedsFlag = flag.Int("seeds", 0, "how many seeds; 0: twelve, or some thousands with PARAGON_TEST_SLOW=1")
)

// planOf is the plan of a seed: of all kinds of jobs.
func planOf(seed uint64) Plan {
	cfg := Config{Elastic: seed%2 == 0, Journal: seed%3 == 0}
	if seed%5 < 2 {
		cfg.Backups = 1
	}
	if seed%7 < 3 {
		cfg.PerHost = 2 + int(seed%7%2)
	}
	return NewPlan(seed, cfg)
}

// simulate runs a plan, and the same without faults where the ends must be alike.
func simulate(t *testing.T, p Plan) (r Report) {
	t.Helper()
	run := func(p Plan) (r Report) {
		defer func() {
			// A bubble that does not end has goroutines that nothing wakes.
			if trouble := recover(); trouble != nil {
				r.Wrong = append(r.Wrong, fmt.Sprintf("%v; its goroutines are in the output of the seed alone", trouble))
				if *seedFlag >= 0 {
					panic(trouble)
				}
			}
		}()
		synctest.Test(t, func(t *testing.T) { r = Run(p) })
		return r
	}
	r = run(p)
	if p.Program == Floats && r.Finished && !p.MembersChange() {
		quiet := run(p.Quiet())
		r.Compare(&quiet)
	}
	return r
}

// Jobs of all seeds hold what package simulate says.
//
//	go test ./internal/testing/simulate -run TestSimulation -seed 17 -v
func TestSimulation(t *testing.T) {
	seeds, first := *seedsFlag, *firstFlag
	switch {
	case *seedFlag >= 0:
		seeds, first = 1, uint64(*seedFlag)
	case seeds == 0 && os.Getenv("PARAGON_TEST_SLOW") != "":
		seeds = 3000
	case seeds == 0:
		// Among twelve seeds any two settings of planOf meet.
		seeds = 12
	}
	began := time.Now()
	var tally tally
	for seed := first; seed < first+uint64(seeds); seed++ {
		plan := planOf(seed)
		r := simulate(t, plan)
		tally.add(&r)
		for i := 1; i < *timesFlag && len(r.Wrong) == 0; i++ {
			r = simulate(t, plan)
		}
		if *seedFlag >= 0 {
			t.Logf("%v\n%s", &plan, r.Trace)
		}
		if len(r.Wrong) > 0 {
			t.Errorf("%v", &plan)
			for _, w := range r.Wrong {
				t.Errorf("seed %d: %s", seed, w)
			}
			t.Errorf("again, with all that was logged: go test ./internal/testing/simulate -run TestSimulation -seed %d -v", seed)
		}
	}
	t.Logf("%d seeds from %d in %v\n%v", seeds, first, time.Since(began).Round(time.Millisecond), &tally)
}

// A tally counts what many runs met.
type tally struct {
	jobs, finished, rounds, lost, doubled int
	took                                  time.Duration
	count                                 [kinds]int
	gap                                   [kinds]time.Duration
}

func (y *tally) add(r *Report) {
	y.jobs++
	y.rounds, y.took, y.lost, y.doubled = y.rounds+r.Rounds, y.took+r.Took, y.lost+r.Lost, y.doubled+r.Doubled
	if r.Finished {
		y.finished++
	}
	for i, f := range r.Injected {
		y.count[f.Kind]++
		if r.Finished {
			y.gap[f.Kind] = max(y.gap[f.Kind], r.Gaps[i])
		}
	}
}

func (y *tally) String() string {
	s := fmt.Sprintf("%d jobs, %d of them finished (the others could not go on), %d rounds, %v of their time; examples lost %d, doubled %d\n",
		y.jobs, y.finished, y.rounds, y.took.Round(time.Second), y.lost, y.doubled)
	s += fmt.Sprintf("%-16s %8s  %s\n", "fault", "injected", "longest time without a round, in jobs that finished")
	for _, k := range Kinds() {
		if y.count[k] > 0 {
			s += fmt.Sprintf("%-16v %8d  %v\n", k, y.count[k], y.gap[k].Round(time.Millisecond))
		}
	}
	return s
}

// A lost worker's step that all parameters have is used, though the workers' agreement on what
// follows it never had that worker's word: its server had died before.
func TestAStepThatAllParametersHaveIsUsed(t *testing.T) {
	plan := Plan{
		Config: Config{Elastic: true, Backups: 1}, Seed: 70690, Workers: 4, Servers: 2, Program: Counts, Examples: 66, Batch: 2, Epochs: 3, Jitter: 9 * time.Millisecond,
		Faults: []Fault{
			{At: 810 * time.Millisecond, Kind: KillServer, A: "server1"}, {At: 1304 * time.Millisecond, Kind: KillWorker, A: "worker3"},
			{At: 1424 * time.Millisecond, Kind: Join, A: "worker4"},
		},
	}
	for range 60 / stride() {
		if r := simulate(t, plan); len(r.Wrong) > 0 {
			t.Fatalf("%v%q", &plan, r.Wrong)
		}
	}
}

// A step of a lost worker is given out again where the one server that had its contribution to some
// parameters was lost with it before their first round closed: the shards that took their place
// have never seen examples counted, and must not be passed over.
func TestAStepThatAServerTookWithItIsGivenOutAgain(t *testing.T) {
	plan := Plan{
		Config: Config{Elastic: true, Backups: 1}, Seed: 5056, Workers: 3, Servers: 2, Program: Counts, Examples: 83, Batch: 4, Epochs: 3, Jitter: 9 * time.Millisecond,
		Faults: []Fault{
			{At: 257 * time.Millisecond, Kind: Refuse, A: "worker1", B: "server1", For: 500 * time.Millisecond},
			{At: 530 * time.Millisecond, Kind: KillWorker, A: "worker2"}, {At: 546 * time.Millisecond, Kind: KillServer, A: "server1"},
		},
	}
	if r := simulate(t, plan); len(r.Wrong) > 0 {
		t.Fatalf("%v%q", &plan, r.Wrong)
	}
}

// A shard that is being given its first value opens although shards are placed anew meanwhile and
// its backup stays the same one.
func TestANewPlacementThatLeavesABackupOpensItsShard(t *testing.T) {
	plan := Plan{
		Config: Config{Backups: 1}, Seed: 320135, Workers: 3, Servers: 3, Program: Counts, Examples: 35, Batch: 2, Epochs: 4, Jitter: 6 * time.Millisecond,
		Faults: []Fault{{At: 133 * time.Millisecond, Kind: AddServer}},
	}
	for i := 0; i < 40; i += stride() {
		plan.Faults[0].At = time.Duration(100+2*i) * time.Millisecond
		if r := simulate(t, plan); len(r.Wrong) > 0 || !r.Finished {
			t.Fatalf("%v%q, finished %v", &plan, r.Wrong, r.Finished)
		}
	}
}

// A worker whose connections to the scheduler broke, and whose first packet of a new one was lost,
// has another one before it is declared lost.
func TestAWorkerWhoseDialIsLostComesBack(t *testing.T) {
	plan := Plan{
		Seed: 701909, Workers: 3, Servers: 1, Program: Sums, Keys: 3, Steps: 66, Jitter: 9 * time.Millisecond,
		Faults: []Fault{
			{At: 2000 * time.Millisecond, Kind: Drop, A: "scheduler", B: "worker1", For: 580 * time.Millisecond},
			{At: 2000 * time.Millisecond, Kind: Drop, A: "worker1", B: "scheduler"},
		},
	}
	for after := 0; after < 300; after += 10 * stride() {
		// The scheduler ends between the two, so nobody answers when the worker dials.
		plan.Faults[1].For = plan.Faults[0].For - time.Duration(after)*time.Millisecond
		if r := simulate(t, plan); len(r.Wrong) > 0 || !r.Finished {
			t.Fatalf("%v%q, finished %v", &plan, r.Wrong, r.Finished)
		}
	}
}

// stride is how many of a test's moments are passed over from one to the next: none with
// PARAGON_TEST_SLOW=1.
func stride() int {
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		return 1
	}
	return 30
}

// A server that comes while a change of the workers is made holds nobody up at the boundary: that
// it is told the optimizer is the store's own business.
func TestAServerAndAWorkerComeTogether(t *testing.T) {
	plan := Plan{
		Config: Config{Elastic: true, Backups: 1}, Seed: 330836, Workers: 4, Servers: 3, Program: Sums, Keys: 5, Steps: 44, Jitter: 3 * time.Millisecond,
		Faults: []Fault{{At: 1000 * time.Millisecond, Kind: Join, A: "worker4"}, {Kind: AddServer}},
	}
	for i := 0; i < 60; i += stride() {
		plan.Faults[1].At = time.Second + time.Duration(60+3*i)*time.Millisecond
		if r := simulate(t, plan); len(r.Wrong) > 0 || !r.Finished {
			t.Fatalf("%v%q, finished %v", &plan, r.Wrong, r.Finished)
		}
	}
}
