package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/adapt"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// wantPasses checks that all passes but the last one have used each example once, and the last one
// none twice.
func wantPasses(t *testing.T, used []worker.Used, examples int) {
	t.Helper()
	last := 0
	for _, u := range used {
		last = max(last, u.Epoch)
	}
	for pass := range last + 1 {
		times := make([]int, examples)
		for _, u := range used {
			if u.Epoch == pass {
				for _, i := range u.Examples {
					times[i]++
				}
			}
		}
		for i, n := range times {
			if n > 1 || n == 0 && pass < last {
				t.Errorf("pass %d of %d: example %d was used %d times, want once", pass, last+1, i, n)
				return
			}
		}
	}
}

// With a fixed batch an epoch is as much progress as a pass makes: it ends in the middle of one
// where a short step counted for more than its examples, and all examples of each pass are used
// once.
func TestEpochsEndByProgress(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.cfg.Adapt = &worker.AdaptConfig{}
	r.cfg.Epochs = 6
	var used []worker.Used
	r.cfg.OnUsed = func(u worker.Used) { used = append(used, u) }
	epochs, err := worker.Fit(t.Context(), r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(epochs) != 6 {
		t.Fatalf("got %d epochs, want 6", len(epochs))
	}
	for i, e := range epochs {
		a := e.Adapt
		if e.Epoch != i || e.Test == nil || a == nil {
			t.Fatalf("epoch %d: got %+v, want number %d with scores and an AdaptInfo", i, e, i)
		}
		if a.InitialBatch != 8 || a.Batch != 8 || a.Scale != 1 || a.Gain != 1 {
			t.Errorf("epoch %d: got %+v, want a batch of 8, scale and gain of 1", i, a)
		}
		if mark := 7.5 * float64(i+1); a.Progress < mark-1e-9 || a.Progress > mark+1 {
			t.Errorf("epoch %d ended with progress %v, want the first step from %v on", i, a.Progress, mark)
		}
		if n := len(e.Losses); n != 7 && n != 8 || len(e.Batches) != n {
			t.Errorf("epoch %d: %d steps with %d batches, want 7 or 8", i, n, len(e.Batches))
		}
	}
	wantPasses(t, used, 60)
}

// decided makes a run that changes its batch at given steps.
func decided(r *fitRig) {
	r.cfg.Adapt = &worker.AdaptConfig{MaxBatch: 48, Accumulation: true, Decisions: []worker.Decision{{Step: 3, LocalBatch: 8, Accumulation: 1}, {Step: 8, LocalBatch: 6, Accumulation: 2}, {Step: 13, LocalBatch: 4}, {Step: 15, LocalBatch: 20}}}
}

// The batch changes after the steps that were decided; each pass uses each example once, whatever
// the batches.
func TestBatchesChangeBetweenSteps(t *testing.T) {
	r := newRig(t, rigConfig{})
	decided(r)
	var used []worker.Used
	r.cfg.OnUsed = func(u worker.Used) { used = append(used, u) }
	epochs, err := worker.Fit(t.Context(), r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	var batches []int
	for _, e := range epochs {
		batches = append(batches, e.Batches...)
	}
	want := []int{8, 8, 8, 16, 16, 4 /* the pass ends */, 16, 16, 18, 10, 18, 18, 18, 4, 2}
	if len(epochs) != 3 || len(batches) < len(want) || !slices.Equal(batches[:5], want[:5]) {
		t.Errorf("got %d epochs with batches %v, want 3 that begin with %v", len(epochs), batches, want)
	}
	for _, e := range epochs {
		if e.Adapt.NoiseScale < 0 || e.Adapt.Gain < 1 && e.Adapt.Scale >= 1 {
			t.Errorf("epoch %d: got %+v", e.Epoch, e.Adapt)
		}
	}
	wantPasses(t, used, 60)
}

// A steppingStore notes what the steps say of the parameters.
type steppingStore struct {
	kvstore.Store
	gains, factors map[string][]float64
}

func (s steppingStore) Step(st kvstore.PushOptions) kvstore.Pusher {
	for _, key := range []string{"conv.weight", "fc.weight"} {
		s.gains[key], s.factors[key] = append(s.gains[key], st.Gain(key)), append(s.factors[key], st.Factor(key))
	}
	return s.Store.Step(st)
}

// The servers are told each group's gain, by which they keep Adam's second moment at the initial
// batch: 1 until the batch changes, and then adascale's factor, and the square of adamscale's.
func TestStepsSayTheirGain(t *testing.T) {
	const grown = 60 // once there are measurements enough for a gain
	for _, name := range []string{"sgd", "adam"} {
		store := steppingStore{newStore(t, "device"), map[string][]float64{}, map[string][]float64{}}
		r := newRig(t, rigConfig{store: store, optimizer: optim.Config{Name: name, LearningRate: 0.01}})
		r.cfg.Adapt = &worker.AdaptConfig{MaxBatch: 48, Accumulation: true, Groups: []string{"conv.*"}, Decisions: []worker.Decision{{Step: 0, LocalBatch: 4, Accumulation: 1}, {Step: grown, LocalBatch: 8, Accumulation: 1}}}
		r.cfg.Epochs = 12
		if _, err := worker.Fit(t.Context(), r.cfg); err != nil {
			t.Fatal(err)
		}
		differ := false
		for key, gains := range store.gains {
			for step, gain := range gains {
				want := store.factors[key][step]
				if name == "adam" {
					want *= want
				}
				if step%32 == 0 && step >= 5 && name == "adam" { // it stands still, to be measured against the next one
					want = gain
				}
				if step < grown && gain > 1 || step == grown && name == "sgd" && gain <= 1 || math.Abs(gain-want) > 1e-12*gain {
					t.Errorf("%s, %s, step %d: got gain %v, want %v, and at most 1 before step %d", name, key, step, gain, want, grown)
				}
				differ = differ || gain != store.gains["conv.weight"][step]
			}
		}
		if !differ && name == "sgd" { // with Adam one worker measures a step in 32
			t.Error("both groups have the same gains, want each its own")
		}
	}
}

// Stopped after any step and resumed, a run whose batch changes ends with the bits of one that was
// not stopped.
func TestAdaptingRunResumesTheVerySame(t *testing.T) {
	for name, c := range map[string]struct {
		rig    rigConfig
		decide func(r *fitRig)
	}{
		"differences": {rigConfig{}, decided},
		"micro-batches": {rigConfig{optimizer: optim.Config{Name: "sgd", LearningRate: 0.05, Momentum: 0.9}}, func(r *fitRig) { // each step is measured
			decided(r)
			r.cfg.Adapt.Decisions = []worker.Decision{{Step: 0, LocalBatch: 4, Accumulation: 1}, {Step: 5, LocalBatch: 5, Accumulation: 2}, {Step: 9, LocalBatch: 8, Accumulation: 3}}
		}},
	} {
		t.Run(name, func(t *testing.T) { resumeTheVerySame(t, c.rig, c.decide) })
	}
}

func resumeTheVerySame(t *testing.T, rig rigConfig, decided func(r *fitRig)) {
	whole := newRig(t, rig)
	decided(whole)
	epochs, err := worker.Fit(t.Context(), whole.cfg)
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	for _, e := range epochs {
		steps += len(e.Losses)
	}
	every := 3
	if !slow() {
		every = 5
	}
	for after := 1; after < steps; after += every {
		if after == 16 && rig.optimizer.Name == "" { // a difference of two steps with a stop between them is not measured, and one worker has no other norms with Adam
			continue
		}
		dir, stop := t.TempDir(), make(chan struct{})
		stopped := newRig(t, rig)
		decided(stopped)
		stopped.cfg.Stop, stopped.cfg.Checkpoint = stop, worker.CheckpointConfig{Dir: dir}
		stopped.cfg.Observers = []worker.Observer{&stopAfter{step: after, stop: stop}}
		first, err := worker.Fit(t.Context(), stopped.cfg)
		if !errors.Is(err, worker.ErrStopped) {
			t.Fatalf("after %d of %d: got error %v, want ErrStopped", after, steps, err)
		}
		resumed := newRig(t, rig)
		decided(resumed)
		resumed.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true}
		rest, err := worker.Fit(t.Context(), resumed.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if i := firstDifference(resumed.values(), whole.values()); i >= 0 {
			t.Errorf("stopped after step %d of %d: value %d differs from the run that was not stopped", after+1, steps, i)
		}
		if n := len(rest); n > 0 && rest[n-1].Adapt.Progress != epochs[2].Adapt.Progress {
			t.Errorf("stopped after step %d: progress %v, want %v", after+1, rest[n-1].Adapt.Progress, epochs[2].Adapt.Progress)
		}
		if n := len(first) + len(rest); n > 3 {
			t.Errorf("stopped after step %d: %d epochs, want at most 3", after+1, n)
		}
	}
}

func TestAdaptNamesWhatItRefuses(t *testing.T) {
	for _, c := range []struct {
		want   string
		rig    rigConfig
		change func(c *worker.FitConfig)
	}{
		{"MaxBatch is 4, below the initial batch of 8", rigConfig{}, func(c *worker.FitConfig) { c.Adapt.MaxBatch = 4 }},
		{"MaxBatch is 4, below the initial batch of 16", rigConfig{}, func(c *worker.FitConfig) { c.Adapt.MaxBatch, c.Adapt.InitialBatch = 4, 16 }},
		{"MinLocal is 12, which excludes the initial batch of 8", rigConfig{}, func(c *worker.FitConfig) { c.Adapt.MaxBatch, c.Adapt.MinLocal = 64, 12 }},
		{"MaxLocal is 2, below MinLocal of 4", rigConfig{}, func(c *worker.FitConfig) { c.Adapt.MaxBatch, c.Adapt.MinLocal, c.Adapt.MaxLocal = 64, 4, 2 }},
		{`rule "cosine" is unknown, want one of adascale`, rigConfig{}, func(c *worker.FitConfig) { c.Adapt.Rule = "cosine" }},
		{"WarmupEpochs is 2 with rule adamscale", rigConfig{}, func(c *worker.FitConfig) { c.Adapt.WarmupEpochs = 2 }},
		{"WarmupEpochs is -1", rigConfig{}, func(c *worker.FitConfig) { c.Adapt.Rule, c.Adapt.WarmupEpochs = "legw", -1 }},
		{"Smoothing is 1", rigConfig{}, func(c *worker.FitConfig) { c.Adapt.Smoothing = 1 }},
		{`Groups[1] is "["`, rigConfig{}, func(c *worker.FitConfig) { c.Adapt.Groups = []string{"conv*", "["} }},
		{"InitialBatch is -1", rigConfig{}, func(c *worker.FitConfig) { c.Adapt.InitialBatch = -1 }},
		{"Decisions[1] is {Step:3", rigConfig{}, func(c *worker.FitConfig) { c.Adapt.Decisions = []worker.Decision{{3, 4, 0}, {3, 8, 0}} }},
		{"Config.UpdateOnWorker, want false", rigConfig{onWorker: true}, nil},
		{"a store of 2 local steps, want none", rigConfig{local: 2}, nil},
		{"BatchFeed", rigConfig{}, func(c *worker.FitConfig) { c.Feed = plainFeed{c.Feed} }},
		{"store dist_async, want dist_sync", rigConfig{store: newStore(t, "dist_async")}, nil},
		{"Compression 2bit, want none, fp16 or bf16", rigConfig{store: newStore(t, "device"), compression: kvstore.Compression{Type: "2bit", Threshold: 1}}, nil},
	} {
		r := newRig(t, c.rig)
		r.cfg.Adapt = &worker.AdaptConfig{}
		if c.change != nil {
			c.change(&r.cfg)
		}
		if _, err := worker.Fit(t.Context(), r.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want one with %q", err, c.want)
		}
	}
}

// compiles is AdaptConfig.Program of a rig, which notes what it was asked for; from a batch of so
// many on there is no memory.
func compiles(t *testing.T, r *fitRig, asked *[]int, noMemory int) func(device, batch int) (*nn.Program, error) {
	return func(device, batch int) (*nn.Program, error) {
		*asked = append(*asked, batch)
		if batch >= noMemory {
			return nil, fmt.Errorf("nn: no memory for %d", batch)
		}
		loss, _ := rigNetwork(batch)
		return nn.Compile(loss, nn.Config{Threads: 1, Share: r.programs[device]})
	}
}

// Batches beyond the trainer's programs get programs of their own, once for each size, and a
// resumed run goes on with the same ones: the very same.
func TestBatchesHaveTheirPrograms(t *testing.T) {
	run := func(after int, dir string) (*fitRig, []int, error) {
		r := newRig(t, rigConfig{})
		decided(r)
		var asked []int
		r.cfg.Adapt.Decisions = append(r.cfg.Adapt.Decisions, worker.Decision{Step: 17, LocalBatch: 9})
		r.cfg.Adapt.Program = compiles(t, r, &asked, 1000)
		if after > 0 {
			stop := make(chan struct{})
			r.cfg.Stop, r.cfg.Observers = stop, []worker.Observer{&stopAfter{step: after, stop: stop}}
		}
		r.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: dir != ""}
		_, err := worker.Fit(t.Context(), r.cfg)
		return r, asked, err
	}
	whole, asked, err := run(0, "")
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{6, 4, 24, 12}; !slices.Equal(asked, want) {
		t.Errorf("programs were compiled for %v, want %v", asked, want)
	}
	for _, after := range []int{4, 9, 14} {
		dir := t.TempDir()
		if _, _, err := run(after, dir); !errors.Is(err, worker.ErrStopped) {
			t.Fatalf("got error %v, want ErrStopped", err)
		}
		resumed, _, err := run(0, dir)
		if err != nil {
			t.Fatal(err)
		}
		if i := firstDifference(resumed.values(), whole.values()); i >= 0 {
			t.Errorf("stopped after step %d: value %d differs from the run that was not stopped", after+1, i)
		}
	}
}

// A batch whose program cannot be made is taken in smaller runs: the log names the size and the
// cause, and training goes on.
func TestABatchWithoutMemoryIsTakenInSmallerRuns(t *testing.T) {
	var text bytes.Buffer
	r := newRig(t, rigConfig{logger: slog.New(slog.NewTextHandler(&text, nil))})
	var asked []int
	r.cfg.Adapt = &worker.AdaptConfig{MaxBatch: 64, Decisions: []worker.Decision{{Step: 2, LocalBatch: 16}, {Step: 4, LocalBatch: 30}}, Program: compiles(t, r, &asked, 20)}
	var used []worker.Used
	r.cfg.OnUsed = func(u worker.Used) { used = append(used, u) }
	epochs, err := worker.Fit(t.Context(), r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if last := epochs[len(epochs)-1]; len(epochs) != 3 || last.Adapt.LocalBatch != 30 || !slices.Equal(asked, []int{16, 32}) {
		t.Errorf("got %d epochs, the last with %+v, and programs for %v; want 3 with a local batch of 30, and attempts for 16 and 32 once each", len(epochs), last.Adapt, asked)
	}
	if log := text.String(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, `"batch of a device"=32`) || !strings.Contains(log, "no memory for 32") {
		t.Errorf("the log is %s, want one error that names 32 and the cause", log)
	}
	wantPasses(t, used, 60)
}

// A program that does not share the trainer's parameters trains something else.
func TestAProgramOfItsOwnIsRefused(t *testing.T) {
	r := newRig(t, rigConfig{})
	other := newRig(t, rigConfig{})
	if err := r.cfg.Trainer.Use(other.programs); err == nil || !strings.Contains(err.Error(), "parameter 0 is conv.weight") || !strings.Contains(err.Error(), "nn.Config.Share") {
		t.Errorf("got error %v, want one that names the parameter and Share", err)
	}
	if err := r.cfg.Trainer.Use(nil); err == nil || !strings.Contains(err.Error(), "programs for 0 devices, want 1") {
		t.Error(err)
	}
}

// A slowFeed takes a second for each run, by a clock of its own.
type slowFeed struct {
	worker.BatchFeed
	clock *time.Time
}

func (f slowFeed) Next(ctx context.Context) ([]int, error) {
	*f.clock = f.clock.Add(time.Second)
	return f.BatchFeed.Next(ctx)
}

// The time that a run of a step waits for its examples is that run's, not the last one's: how long
// a step of more runs takes follows from it.
func TestWaitingForExamplesBelongsToItsRun(t *testing.T) {
	r := newRig(t, rigConfig{})
	clock := time.Unix(0, 0)
	r.cfg.Feed = slowFeed{r.feed, &clock}
	var last []adapt.Timing
	r.cfg.Adapt = &worker.AdaptConfig{MaxBatch: 24, Accumulation: true, Decisions: []worker.Decision{{Step: 0, LocalBatch: 5, Accumulation: 2}}}
	r.cfg.Adapt.SeeTimings(func() time.Time { return clock }, func(t []adapt.Timing) { last = slices.Clone(t) })
	r.cfg.Epochs = 8
	if _, err := worker.Fit(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	// What it waits for the exchange is taken from a run by the real clock.
	if len(last) != 1 || math.Abs(last[0].Accumulation-1) > 0.5 || math.Abs(last[0].Step-1) > 0.5 {
		t.Errorf("got %+v, want one of 5 examples with a second for each run", last)
	}
}

// costly is a model of a step's time: four seconds, one for each run, and a thousandth for each of
// its examples.
type costly struct{}

func (costly) StepTime(_, _, local, accumulation int) float64 {
	return 4 + (1+float64(local)/1000)*float64(accumulation+1)
}

// One worker alone chooses steps of several runs, with the programs that the memory holds.
func TestOneWorkerChoosesItsBatch(t *testing.T) {
	r := newRig(t, rigConfig{})
	var asked []int
	r.cfg.Epochs = 80 // one step in 32 is measured before the batch grows
	r.cfg.Adapt = &worker.AdaptConfig{MaxBatch: 40, Accumulation: true, Program: compiles(t, r, &asked, 16)}
	clock := time.Unix(0, 0)
	r.cfg.Adapt.SetModel(func() time.Time { clock = clock.Add(time.Millisecond); return clock }, costly{})
	epochs, err := worker.Fit(t.Context(), r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	last := epochs[len(epochs)-1].Adapt
	if len(epochs) != 80 || last.Batch <= 8 || last.Batch > 40 || last.Accumulation == 0 || last.LocalBatch > 15 {
		t.Errorf("%d epochs, the last with %+v; want 80, and a batch of 9 to 40 in several runs of at most 15", len(epochs), last)
	}
}

// A factorStore notes the factors of one parameter, and where the steps' values stand.
type factorStore struct {
	kvstore.Store
	factors *[]float64
}

func (s factorStore) Step(st kvstore.PushOptions) kvstore.Pusher {
	*s.factors = append(*s.factors, st.Factor("fc.weight"))
	return s.Store.Step(st)
}

// One worker whose batch may grow takes one step in 32, with SGD from step 64 on, with a factor of
// 0, so that two gradients are of the same parameters; such a step is no progress. Where the batch
// cannot grow, or there are micro-gradients to compare, no step stands still.
func TestOneStepIn32StandsStill(t *testing.T) {
	for _, c := range []struct {
		name, optimizer string
		adapt           worker.AdaptConfig
		still           []int
	}{
		{"sgd", "sgd", worker.AdaptConfig{MaxBatch: 40, Accumulation: true}, []int{64}},
		{"adam", "adam", worker.AdaptConfig{MaxBatch: 40, Accumulation: true}, []int{32, 64}},
		{"the batch stays", "sgd", worker.AdaptConfig{}, nil},
		{"no accumulation", "sgd", worker.AdaptConfig{MaxBatch: 40}, nil},
		{"micro-batches", "sgd", worker.AdaptConfig{MaxBatch: 40, Accumulation: true, Decisions: []worker.Decision{{Step: 0, LocalBatch: 4, Accumulation: 1}}}, nil},
		{"micro-batches with adam", "adam", worker.AdaptConfig{MaxBatch: 40, Accumulation: true, Decisions: []worker.Decision{{Step: 0, LocalBatch: 4, Accumulation: 1}}}, []int{32, 64}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var factors []float64
			r := newRig(t, rigConfig{store: factorStore{newStore(t, "device"), &factors}, optimizer: optim.Config{Name: c.optimizer, LearningRate: 0.01}})
			r.cfg.Epochs, r.cfg.Adapt = 10, &c.adapt
			epochs, err := worker.Fit(t.Context(), r.cfg)
			if err != nil {
				t.Fatal(err)
			}
			var still []int
			for step, factor := range factors {
				if factor == 0 {
					still = append(still, step)
				}
			}
			if !slices.Equal(still, c.still) {
				t.Errorf("of %d steps %v have the factor 0, want %v", len(factors), still, c.still)
			}
			last, examples := epochs[len(epochs)-1].Adapt, 0.0
			for _, e := range epochs {
				for i, n := range e.Batches {
					if !slices.Contains(c.still, int(e.Done)-len(e.Losses)+i) {
						examples += min(float64(n)/8, 1)
					}
				}
			}
			if last.Progress > float64(len(factors)-len(still)) || last.Progress < examples-1e-9 {
				t.Errorf("%d steps, %d of them still, came to progress %v, want %v to %d", len(factors), len(still), last.Progress, examples, len(factors)-len(still))
			}
		})
	}
}
