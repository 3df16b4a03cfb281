package schedule_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/jobs"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// fakeNodes are nodes on which trials run as jobs of fake time. A step of trial x takes 1 s on one
// replica, and less on more.
type fakeNodes struct {
	steps       func(p tune.Params) int
	checkpoints bool
	drains      bool // replicas run on where a node is taken away, until they are told to leave
	profile     func(trial int) string

	mu      sync.Mutex
	nodes   []jobs.NodeSlots
	given   map[int]jobs.Placement // by trial
	fixed   map[int]string
	moved   map[int]chan struct{}
	changes chan string
	most    map[int]int // by trial: the most replicas it had
}

func newFakeNodes(steps int, nodes ...jobs.NodeSlots) *fakeNodes {
	return &fakeNodes{steps: func(tune.Params) int { return steps }, profile: func(int) string { return scales }, nodes: nodes, given: make(map[int]jobs.Placement),
		fixed: make(map[int]string), moved: make(map[int]chan struct{}), changes: make(chan string, 9), most: make(map[int]int)}
}

// scales is the profile of a job that scales well, flat of one that does not.
const (
	scales = `{"initial_batch":64,"global_batch":256,"local_batch":64,"goodput":800,"noise":{"sqr":1,"var":100},` +
		`"model":{"alpha_compute":0.01,"beta_compute":0.001,"latency":0.001,"gamma":2,"bytes":1000000,"servers":1},"limits":{"max_batch":4096,"max_local":256}}`
	flat = `{"initial_batch":64,"global_batch":64,"local_batch":64,"goodput":90,"noise":{"sqr":1,"var":1e-6},` +
		`"model":{"alpha_compute":0.5,"beta_compute":0.0001,"latency":0.5,"gamma":1,"bytes":1000000,"servers":1},"limits":{"max_batch":64,"max_local":64}}`
)

func (f *fakeNodes) Scalable(r tune.Resources, least int) error { return nil }

func (f *fakeNodes) Slots(context.Context, tune.Resources) ([]jobs.NodeSlots, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.nodes), nil
}

func (f *fakeNodes) States(_ context.Context, trials []int) map[int]jobs.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[int]jobs.State)
	for _, n := range trials {
		j := jobs.State{Trial: n, On: f.given[n], ChangeCost: time.Second, Fixed: f.fixed[n]}
		if len(j.On) > 0 {
			j.Profile = f.profile(n)
		}
		all[n] = j
	}
	return all
}

func (f *fakeNodes) Scale(trial, _ int, on jobs.Placement) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.given[trial] = on
	f.most[trial] = max(f.most[trial], on.Replicas())
	if c := f.moved[trial]; c != nil {
		close(c)
	}
	f.moved[trial] = make(chan struct{})
}

func (f *fakeNodes) Changes() <-chan string { return f.changes }

// set replaces the nodes, as when some are lost.
func (f *fakeNodes) set(cause string, nodes ...jobs.NodeSlots) {
	f.mu.Lock()
	f.nodes = nodes
	f.mu.Unlock()
	f.changes <- cause
}

func (f *fakeNodes) replicas(trial int) (int, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.moved[trial] == nil {
		f.moved[trial] = make(chan struct{})
	}
	n := 0
	for _, x := range f.given[trial] { // on nodes that are still there
		if f.drains || slices.ContainsFunc(f.nodes, func(y jobs.NodeSlots) bool { return y.Node == x.Node }) {
			n += x.Replicas
		}
	}
	return n, f.moved[trial]
}

func (f *fakeNodes) Run(ctx context.Context, a tune.Attempt, r *tune.Reporter) error {
	defer func() {
		f.mu.Lock()
		delete(f.given, a.Trial)
		f.mu.Unlock()
	}()
	step := 0
	if dir, at, ok := r.Restore(); ok {
		b, err := os.ReadFile(filepath.Join(dir, "step"))
		if err != nil || string(b) != strconv.Itoa(at) {
			return fmt.Errorf("checkpoint %q, %v", b, err)
		}
		step = at
	}
	for step < f.steps(a.Params) {
		n, moved := f.replicas(a.Trial)
		if n == 0 {
			select {
			case <-moved:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		select {
		case <-time.After(time.Second / time.Duration(n)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		step++
		if f.checkpoints && step%5 == 0 {
			if err := r.Checkpoint(step, func(dir string) error {
				return os.WriteFile(filepath.Join(dir, "step"), []byte(strconv.Itoa(step)), 0o666)
			}); err != nil {
				return err
			}
		}
		if err := r.Report(step, map[string]float64{"accuracy": float64(step)}); err != nil {
			return err
		}
	}
	return nil
}

func goodputConfig(t *testing.T, g *schedule.Goodput, f *fakeNodes, trials, parallel int) tune.Config {
	values := make([]any, trials)
	for i := range values {
		values[i] = i
	}
	return tune.Config{Space: tune.Space{tune.Grid("x", values...)}, Metric: "accuracy", Mode: tune.Max, Parallel: parallel, Scheduler: g, Runner: f, Dir: t.TempDir(),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// allocations are the divisions of a log, a line each: its cause, and what each trial got.
func allocations(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := tune.ReadLog(dir, func(e tune.Event) error {
		if e.Kind != tune.EventAllocate {
			return nil
		}
		parts := []string{e.Rule + ":"}
		for _, x := range e.Shares {
			text := fmt.Sprintf("%d %s", x.Trial, x.On)
			if x.Pause {
				text = fmt.Sprintf("%d pauses", x.Trial)
			}
			parts = append(parts, text)
		}
		all = append(all, strings.Join(parts, " "))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func wantReplay(t *testing.T, dir string, cfg tune.Config, g *schedule.Goodput, hash string) {
	t.Helper()
	cfg.Scheduler, cfg.Runner, cfg.Observers = g, nil, nil
	replayed, err := tune.Replay(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if hash != "" && replayed.DecisionHash != hash {
		t.Errorf("replayed to hash %s, want %s", replayed.DecisionHash, hash)
	}
	if read, err := tune.ReadResult(dir); err != nil || read.DecisionHash() != replayed.DecisionHash {
		t.Errorf("from the log alone: %v, want hash %s", err, replayed.DecisionHash)
	}
}

// Two trials share four slots; when the short one ends the other gets them all, without a restart.
func TestReplicasMoveWhenATrialEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes(60, jobs.NodeSlots{Node: "a", Slots: 4})
		f.steps = func(p tune.Params) int { return 30 + 60*p.Int("x") }
		newScheduler := func() *schedule.Goodput { return &schedule.Goodput{Interval: 5 * time.Second, MaxStep: 90} }
		cfg := goodputConfig(t, newScheduler(), f, 2, 2)
		began := time.Now()
		result, err := tune.Run(t.Context(), nil, cfg)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		for _, x := range result.Trials() {
			if x.State != tune.Completed || x.Attempts != 1 || len(x.Reports) != 30+60*x.Number {
				t.Errorf("trial %d is %s after %d attempts with %d reports: %s; want completed after 1 with %d", x.Number, x.State, x.Attempts, len(x.Reports), x.Error, 30+60*x.Number)
			}
		}
		if f.most[0] < 2 || f.most[1] != 4 {
			t.Errorf("the trials had at most %v replicas, want at least 2 and 4", f.most)
		}
		if took > 40*time.Second { // with fixed halves 45 s, in the best case 30 s
			t.Errorf("the search took %v, want less than with fixed halves", took)
		}
		log := allocations(t, cfg.Dir)
		if len(log) == 0 || !strings.HasPrefix(log[0], "trial 0 started, trial 1 started: 0 a=2 1 a=2") ||
			!slices.ContainsFunc(log, func(s string) bool { return strings.Contains(s, "trial 0 ended") }) {
			t.Errorf("the divisions are\n%s", strings.Join(log, "\n"))
		}
		if x := result.Trials()[1]; x.Training.GlobalBatch != 256 || x.Training.Goodput != 800 || x.Placement.Replicas() != 4 || x.Location != "a x4" {
			t.Errorf("trial 1 ended with %+v on %s at %q, want the numbers of its profile, 4 replicas, a x4", x.Training, x.Placement, x.Location)
		}
		wantReplay(t, cfg.Dir, cfg, newScheduler(), result.DecisionHash())
		other := newScheduler()
		other.MaxReplicas = 1
		cfg.Scheduler, cfg.Runner = other, nil
		if _, err := tune.Replay(cfg.Dir, cfg); err == nil {
			t.Error("a log replays with other limits")
		} else if diverged := (*tune.DivergedError)(nil); !errors.As(err, &diverged) {
			t.Errorf("got %v, want the first division that differs", err)
		}
	})
}

func TestReplicasMoveWhenAHostIsLostAndATrialStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := jobs.NodeSlots{Node: "a", Slots: 2}, jobs.NodeSlots{Node: "b", Slots: 2}
		f := newFakeNodes(80, a, b)
		newScheduler := func() *schedule.Goodput { return &schedule.Goodput{Interval: 5 * time.Second, MaxStep: 80} }
		cfg := goodputConfig(t, newScheduler(), f, 3, 2)
		go func() {
			time.Sleep(20 * time.Second)
			f.set("host b was lost", a)
			time.Sleep(20 * time.Second)
			f.set("host b was added", a, b)
		}()
		result, err := tune.Run(t.Context(), nil, cfg)
		if err != nil {
			t.Fatal(err)
		}
		log := strings.Join(allocations(t, cfg.Dir), "\n")
		for _, want := range []string{"host b was lost: 0 a=1 1 a=1", "host b was added: ", "trial 2 started"} {
			if !strings.Contains(log, want) {
				t.Errorf("the divisions do not have %q:\n%s", want, log)
			}
		}
		for _, x := range result.Trials() {
			if x.State != tune.Completed || x.Attempts != 1 {
				t.Errorf("trial %d is %s after %d attempts, want completed after 1", x.Number, x.State, x.Attempts)
			}
		}
		wantReplay(t, cfg.Dir, cfg, newScheduler(), result.DecisionHash())
	})
}

// Fewer slots than trials are left: one that has a checkpoint gives up what it has, and continues
// from there when there are slots again.
func TestATrialThatGivesUpAllSlotsContinuesFromItsCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes(20, jobs.NodeSlots{Node: "a", Slots: 1}, jobs.NodeSlots{Node: "b", Slots: 1})
		f.checkpoints, f.drains = true, true
		newScheduler := func() *schedule.Goodput { return &schedule.Goodput{Interval: 10 * time.Second, MaxStep: 20} }
		cfg := goodputConfig(t, newScheduler(), f, 2, 2)
		go func() {
			time.Sleep(8 * time.Second)
			f.set("host b is taken away", jobs.NodeSlots{Node: "a", Slots: 1})
		}()
		result, err := tune.Run(t.Context(), nil, cfg)
		if err != nil {
			t.Fatal(err)
		}
		attempts := 0
		for _, x := range result.Trials() {
			attempts += x.Attempts
			if x.State != tune.Completed || len(x.Reports) != 20 {
				t.Errorf("trial %d is %s with %d reports, want completed with 20: %s", x.Number, x.State, len(x.Reports), x.Error)
			}
		}
		if log := strings.Join(allocations(t, cfg.Dir), "\n"); attempts != 3 || !regexp.MustCompile(`host b is taken away: (0 a=1 1|0) pauses`).MatchString(log) {
			t.Errorf("%d attempts of 2 trials, want 3; the divisions are\n%s", attempts, log)
		}
		wantReplay(t, cfg.Dir, cfg, newScheduler(), result.DecisionHash())
	})
}

// A trial that runs without a checkpoint is not left without replicas, whatever the slots are worth
// to others.
func TestATrialWithoutACheckpointKeepsItsLeast(t *testing.T) {
	long := strings.Replace(scales, `"goodput"`, `"progress":100000,"goodput"`, 1)
	for _, pausable := range []bool{true, false} {
		v := &tunetest.View{}
		s := jobs.AllocationRequest{Cause: "trial 1 started", Nodes: []jobs.NodeSlots{{Node: "a", Slots: 5}}}
		for i, step := range []int{1, 50} { // trial 0 has barely begun, and the other one is half through
			x := v.Add(tune.MustParams("x", i))
			v.Report(x, step, 1)
			s.Jobs = append(s.Jobs, jobs.State{Trial: i, Profile: long, Pausable: pausable})
		}
		s.Jobs[0].On = jobs.Placement{{Node: "a", Replicas: 5}}
		g := &schedule.Goodput{MaxStep: 100, MinReplicas: 3, Completion: true, ChangeCost: time.Millisecond}
		shares := g.Allocate(v, s)
		switch x := shares[0]; {
		case pausable && (!x.Pause || shares[1].On.Replicas() < 3 || !strings.Contains(x.Rule, "it continues from its checkpoint")):
			t.Errorf("with a checkpoint the shares are %+v, want trial 0 paused for the other one", shares)
		case !pausable && (x.Pause || x.On.String() != "a=3" || !strings.Contains(x.Rule, "keeps 3 of its 5 replicas: it has no checkpoint") || len(shares[1].On) > 0):
			t.Errorf("without a checkpoint the shares are %+v, want trial 0 to keep 3 replicas", shares)
		}
	}
}

func TestLimitsOfReplicasHold(t *testing.T) {
	for _, tc := range []struct {
		name  string
		g     schedule.Goodput
		least int
		most  int
	}{
		{"from 2 to 3", schedule.Goodput{MinReplicas: 2, MaxReplicas: 3}, 2, 3},
		{"one", schedule.Goodput{MaxReplicas: 1}, 1, 1},
		{"not preemptible", schedule.Goodput{NonPreemptible: true, MaxReplicas: 2}, 2, 2},
		{"pinned", schedule.Goodput{Pinned: []int{0, 1, 2}, MaxReplicas: 2}, 2, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeNodes(30, jobs.NodeSlots{Node: "a", Slots: 4}, jobs.NodeSlots{Node: "b", Slots: 2})
				g := tc.g
				g.Interval = 3 * time.Second
				cfg := goodputConfig(t, &g, f, 3, 3)
				result, err := tune.Run(t.Context(), nil, cfg)
				if err != nil {
					t.Fatal(err)
				}
				err = tune.ReadLog(cfg.Dir, func(e tune.Event) error {
					for _, x := range e.Shares {
						if n := x.On.Replicas(); n > 0 && (n < tc.least || n > tc.most) {
							t.Errorf("trial %d has %d replicas, want %d to %d", x.Trial, n, tc.least, tc.most)
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				again := tc.g
				again.Interval = 3 * time.Second
				wantReplay(t, cfg.Dir, cfg, &again, result.DecisionHash())
			})
		})
	}
}

// A trial that gains nothing from more replicas does not get them; one whose replicas cannot change
// keeps what it has.
func TestReplicasGoWhereTheyPay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes(40, jobs.NodeSlots{Node: "a", Slots: 8})
		f.profile = func(trial int) string {
			if trial == 0 {
				return flat
			}
			return scales
		}
		f.fixed[2] = "its program takes part in no change"
		cfg := goodputConfig(t, &schedule.Goodput{Interval: 5 * time.Second}, f, 3, 3)
		if _, err := tune.Run(t.Context(), nil, cfg); err != nil {
			t.Fatal(err)
		}
		log := allocations(t, cfg.Dir)
		first, second := strings.Fields(log[0]), strings.Fields(log[1])
		if had, has := first[len(first)-1], second[len(second)-1]; had != has || strings.Contains(log[2], " 0 a=3") || f.most[1] < 4 {
			t.Errorf("trial 2 has %s after %s, the most were %v; want it to keep them, and trial 1 to get more than trial 0\n%s", has, had, f.most, strings.Join(log, "\n"))
		}
	})
}

// A search that is killed goes on: its decisions are recomputed, and trials get replicas again.
func TestADividedSearchIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes(30, jobs.NodeSlots{Node: "a", Slots: 4})
		f.checkpoints = true
		newScheduler := func() *schedule.Goodput {
			return &schedule.Goodput{Interval: 4 * time.Second, Inner: &schedule.ASHA{MaxStep: 30}}
		}
		cfg := goodputConfig(t, newScheduler(), f, 4, 3)
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		if _, err := tune.Run(ctx, nil, cfg); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want an interrupted search", err)
		}
		cfg.Scheduler, cfg.Resume = newScheduler(), tune.ResumeAuto
		result, err := tune.Run(t.Context(), nil, cfg)
		if err != nil {
			t.Fatal(err)
		}
		completed := 0
		for _, x := range result.Trials() {
			completed += map[bool]int{true: 1}[x.State == tune.Completed]
			if x.State == tune.Failed || x.State == tune.Running || x.State == tune.Pending {
				t.Errorf("trial %d is %s: %s", x.Number, x.State, cmp.Or(x.Error, x.Rule))
			}
		}
		if completed == 0 {
			t.Error("no trial completed")
		}
		wantReplay(t, cfg.Dir, cfg, newScheduler(), result.DecisionHash())
	})
}

func TestGoodputSaysWhatIsWrong(t *testing.T) {
	for _, tc := range []struct {
		g    schedule.Goodput
		want string
	}{
		{schedule.Goodput{Fairness: 2}, "Fairness is 2, want at most 1"},
		{schedule.Goodput{MinReplicas: 3, MaxReplicas: 2}, "MinReplicas 3 is above MaxReplicas 2"},
		{schedule.Goodput{MinReplicas: -1}, "MinReplicas is -1"},
		{schedule.Goodput{Interval: -1}, "Interval is -1ns"},
		{schedule.Goodput{Hysteresis: 1}, "Hysteresis is 1"},
		{schedule.Goodput{ChangeCost: -1}, "ChangeCost is -1ns"},
		{schedule.Goodput{Pinned: []int{-1}}, "Pinned is [-1]"},
		{schedule.Goodput{MaxStep: -1}, "MaxStep is -1"},
		{schedule.Goodput{First: -1}, "First is -1"},
		{schedule.Goodput{Growth: 0.5}, "Growth is 0.5"},
		{schedule.Goodput{Completion: true, Fairness: -1}, "Fairness is -1, and Completion is set"},
		{schedule.Goodput{Inner: &schedule.Goodput{}}, "Inner is *schedule.Goodput, which divides nodes, too"},
		{schedule.Goodput{Inner: &schedule.ASHA{}}, "MaxStep is 0"},
	} {
		if err := tc.g.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: got %v, want an error with %q", tc.g, err, tc.want)
		}
	}
	if err := (schedule.Any{&schedule.ASHA{MaxStep: 9}, &schedule.Goodput{}}).Validate(); err == nil || !strings.Contains(err.Error(), "Goodput{Inner: ...}") {
		t.Errorf("Any with Goodput: got %v", err)
	}
	for _, tc := range []struct {
		name string
		cfg  func(*tune.Config)
		want string
	}{
		{"in this process", func(c *tune.Config) { c.Runner = nil }, "divides nodes among elastic jobs, but tune.inProcess runs no jobs: set Config.Runner to Jobs"},
		{"without servers", func(c *tune.Config) { c.Runner = &tune.Jobs{NoServers: true} }, "got Jobs.NoServers, want it off"},
		{"with slots", func(c *tune.Config) { c.Runner, c.Resources.Slots = &tune.Jobs{}, 2 }, "Resources has 0 hosts and 2 slots for a trial: leave both out"},
		{"with a flag", func(c *tune.Config) {
			c.Runner = &tune.Jobs{LaunchFlags: []string{"--elastic-training-enabled=False"}}
		}, "LaunchFlags has --elastic-training-enabled=False"},
		{"too many", func(c *tune.Config) { c.Runner, c.Scheduler = &tune.Jobs{}, &schedule.Goodput{MinReplicas: 5000} }, "a trial needs at least 5000 replicas, and the nodes have "},
	} {
		cfg := goodputConfig(t, &schedule.Goodput{}, nil, 1, 1)
		cfg.Runner = nil
		tc.cfg(&cfg)
		if _, err := tune.Run(t.Context(), func(context.Context, tune.Params, *tune.Reporter) error { return nil }, cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", tc.name, err, tc.want)
		}
	}
}
