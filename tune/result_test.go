package tune_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/tune"
)

// noisy has its best at x = 0.3, and noise from the trial's seed.
func noisy(_ context.Context, p tune.Params, r *tune.Reporter) error {
	rng := rand.New(rand.NewPCG(r.Seed(), 1))
	return r.Report(1, map[string]float64{"v": -math.Abs(p.Float("x")-0.3) + 0.01*rng.NormFloat64()})
}

func TestTheBestAreConfirmedWithNewSeeds(t *testing.T) {
	dir := t.TempDir()
	res, err := tune.Run(t.Context(), noisy, tune.Config{Space: tune.Space{tune.Real("x", 0, 1), tune.Grid("g", "a", "b")}, Samples: 3, Seed: 4, Dir: dir, Logger: quiet,
		Points: []tune.Point{{"x": 0.3, "g": "a"}, {"x": 0.32, "g": "b"}, {"x": 0.6, "g": "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	all, err := res.Confirm(t.Context(), 3, 20)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, c := range all {
		truth := -math.Abs(c.Params.Float("x") - 0.3)
		if len(c.Values) != 20 || c.Low > truth || c.High < truth || c.Low >= c.Mean || c.Mean >= c.High {
			t.Errorf("trial %d: got %d runs, mean %.4f in [%.4f, %.4f], want 20 and an interval with %.4f", c.Trial, len(c.Values), c.Mean, c.Low, c.High, truth)
		}
		// 20 runs with deviation 0.01: an interval of ±2.09·0.01/√20.
		if half := (c.High - c.Low) / 2; half < 0.002 || half > 0.008 {
			t.Errorf("trial %d: got an interval of ±%.4f, want about ±0.0047", c.Trial, half)
		}
		sum += c.Best
		if want := c.Params.Float("x") == 0.3; want != (c.Best > 0.99) {
			t.Errorf("trial %d with x %v: got a probability of %.3f to be the best", c.Trial, c.Params.Float("x"), c.Best)
		}
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("probabilities add up to %v, want 1", sum)
	}
	again, err := res.Confirm(t.Context(), 3, 20) // from its folder: nothing runs
	if err != nil || !slices.Equal(again[0].Values, all[0].Values) {
		t.Errorf("confirmed again: got %v (%v), want %v", again[0].Values, err, all[0].Values)
	}
	best, err := res.RunBest(t.Context())
	if err != nil || best.State != tune.Completed || !best.Params.Equal(res.BestTrial().Params) || best.Seed == res.BestTrial().Seed {
		t.Errorf("run best: got %s with %v (%v), want completed with %v and another seed", best.State, best.Params, err, res.BestTrial().Params)
	}
}

func TestABestByAnotherMetricAndErrorsThatNameTheCandidates(t *testing.T) {
	res, err := tune.Run(t.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		return r.Report(1, map[string]float64{"accuracy": p.Float("x"), "loss": (p.Float("x") - 0.5) * (p.Float("x") - 0.5)})
	}, tune.Config{Space: line, Samples: 30, Metric: "accuracy", Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if best, loss, err := res.BestBy("loss", tune.Min); err != nil || math.Abs(best.Params.Float("x")-0.5) > 0.1 || loss > 0.01 {
		t.Errorf("best by loss: got %v with %v (%v)", best.Params, loss, err)
	}
	if _, _, err := res.BestBy("speed", tune.Max); !errors.Is(err, tune.ErrNoMetric) || !strings.Contains(err.Error(), "reported were accuracy, loss") {
		t.Errorf("best by what nobody reported: got %v", err)
	}
	if top := res.Top(3); len(top) != 3 || top[0].Number != res.BestTrial().Number || top[1].Params.Float("x") < top[2].Params.Float("x") {
		t.Errorf("top 3: got %v", top)
	}
	_, err = tune.Run(t.Context(), func(context.Context, tune.Params, *tune.Reporter) error { return errors.New("no data") },
		tune.Config{Space: line, Samples: 3, Metric: "v", Logger: quiet})
	if !errors.Is(err, tune.ErrNoResult) || !strings.Contains(err.Error(), "3 trials, 3 failed; trial 0: user code: no data") {
		t.Errorf("a search without a result: got %v", err)
	}
	_, err = tune.Run(t.Context(), func(context.Context, tune.Params, *tune.Reporter) error { return nil }, tune.Config{Space: line, Samples: 1, Metric: "v", Logger: quiet})
	if !errors.Is(err, tune.ErrNoResult) || !strings.Contains(err.Error(), "without a report; a function reports with Reporter.Report, a command with a line such as v=0.91 step=3") {
		t.Errorf("a search without a report: got %v", err)
	}
}

type stopAt struct {
	value float64
	study bool
}

func (s stopAt) Prune(v tune.View, trial int) tune.StopDecision {
	if r, ok := v.Trial(trial).Last(); ok && v.Score(r.Value) >= v.Score(s.value) {
		return tune.StopDecision{Trial: tune.Complete, StopAll: s.study, Rule: fmt.Sprintf("reached %v", s.value)}
	}
	return tune.StopDecision{}
}

func TestPrunersEndTrialsAndTheStudyAlsoWhenItIsResumed(t *testing.T) {
	cfg := tune.Config{Space: line, Samples: 20, Metric: "accuracy", Logger: quiet, Pruners: []tune.Pruner{stopAt{value: 0.6}}}
	res, err := tune.Run(t.Context(), train(10), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range res.Trials() {
		last, _ := x.Last()
		if over := last.Value >= 0.6; over != (x.Rule == "reached 0.6") || x.State != tune.Completed || over == (len(x.Reports) == 10) {
			t.Errorf("trial %d: %s by %q after %d reports with %v", x.Number, x.State, x.Rule, len(x.Reports), last.Value)
		}
	}
	cfg.Pruners = []tune.Pruner{stopAt{0.9, true}}
	cfg.Dir, cfg.Resume, cfg.Parallel = t.TempDir(), tune.ResumeAuto, 3
	if res, err = tune.Run(t.Context(), train(10), cfg); err != nil || res.Halted != "reached 0.9" || len(res.Trials()) > 19 {
		t.Errorf("got %d trials, halted %q (%v); want fewer than 20 and reached 0.9", len(res.Trials()), res.Halted, err)
	}
	again, err := tune.Run(t.Context(), train(10), cfg)
	if err != nil || len(again.Trials()) != len(res.Trials()) || again.DecisionHash() != res.DecisionHash() {
		t.Errorf("resumed: got %d trials (%v), want it to stay over with %d", len(again.Trials()), err, len(res.Trials()))
	}
}

func TestTheFirstFailureEndsTheSearchIfItIsToAndItGoesOnWhenResumed(t *testing.T) {
	var fixed bool
	cfg := tune.Config{Space: line, Samples: 5, Metric: "v", MaxFailed: 1, Dir: t.TempDir(), Resume: tune.ResumeErrored, Logger: quiet}
	f := func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		if r.Trial() == 2 && !fixed {
			return errors.New("a bug")
		}
		return r.Report(1, map[string]float64{"v": 1})
	}
	res, err := tune.Run(t.Context(), f, cfg)
	if err == nil || !strings.Contains(err.Error(), "1 trials have failed, the newest trial 2: user code: a bug") || len(res.Trials()) != 3 {
		t.Errorf("got %d trials and %v", len(res.Trials()), err)
	}
	fixed = true
	if res, err = tune.Run(t.Context(), f, cfg); err != nil || len(res.Trials()) != 5 {
		t.Errorf("resumed: got %d trials and %v, want 5", len(res.Trials()), err)
	}
	for _, x := range res.Trials() {
		if x.State != tune.Completed {
			t.Errorf("resumed: trial %d is %s", x.Number, x.State)
		}
	}
}

// pauseAll pauses every trial at each step and lets the best go on.
type pauseAll struct{ tune.FIFO }

func (pauseAll) Reported(v tune.View, trial int, _ *rand.Rand) tune.Decision {
	d := tune.Go()
	if d.Action = tune.Pause; lastStep(v.Trial(trial)) == 4 {
		d.Action = tune.Complete
	}
	return d
}

func (pauseAll) Next(v tune.View) tune.TrialChoice {
	if !v.Exhausted() {
		return tune.TrialChoice{}
	}
	best := tune.TrialChoice{Kind: tune.ChooseNone}
	for t := range v.Trials() {
		if t.State == tune.Paused && (best.Kind == tune.ChooseNone || v.Score(v.Result(t)) > v.Score(v.Result(v.Trial(best.Trial)))) {
			best = tune.TrialChoice{Kind: tune.ChoosePaused, Trial: t.Number}
		}
	}
	return best
}

func TestPausedTrialsGoOnFromTheirCheckpointsWithinTheBudget(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	most := int64(0)
	res, err := tune.Run(t.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		done := 0
		if dir, step, ok := r.Restore(); ok {
			if _, err := os.Stat(filepath.Join(dir, fmt.Sprintf("weights-%d", step))); err != nil {
				return err
			}
			done = step
		} else if r.Attempt() > 1 {
			return errors.New("goes on without a checkpoint")
		}
		for step := done + 1; ; step++ {
			err := r.Checkpoint(step, func(dir string) error {
				return os.WriteFile(filepath.Join(dir, fmt.Sprintf("weights-%d", step)), make([]byte, 1000), 0o666)
			})
			if err != nil {
				return err
			}
			if err := r.Report(step, map[string]float64{"v": p.Float("x") + float64(step)}); err != nil {
				mu.Lock()
				most = max(most, bytesUnder(dir))
				mu.Unlock()
				return err
			}
		}
	}, tune.Config{Space: line, Samples: 6, Metric: "v", Parallel: 2, Dir: dir, Scheduler: pauseAll{}, CheckpointBytes: 8500, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range res.Trials() {
		if x.State != tune.Completed || x.Attempts != 4 || len(x.Reports) != 4 {
			t.Errorf("trial %d: %s after %d attempts and %d reports: %s; want completed, 4, 4", x.Number, x.State, x.Attempts, len(x.Reports), x.Error)
		}
	}
	// Six trials have one each; what they have more is within the budget, but for one just
	// written by either slot.
	if most > 11_000 {
		t.Errorf("checkpoints took up to %d bytes, want at most the budget of 8500 and two more", most)
	}
	if best := res.BestTrial(); len(best.Checkpoints) == 0 || best.Checkpoints[len(best.Checkpoints)-1].Step != 4 {
		t.Errorf("the best trial kept %v, want its newest", best.Checkpoints)
	}
}

func TestTheBestTrialsCheckpointStaysAndTheWorstGoFirst(t *testing.T) {
	for budget, want := range map[int64]string{2500: " 1@2 4@2", 1: " 1@2"} {
		dir := t.TempDir()
		res, err := tune.Run(t.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
			for step := 1; step <= 2; step++ {
				if err := r.Checkpoint(step, func(dir string) error { return os.WriteFile(filepath.Join(dir, "w"), make([]byte, 1000), 0o666) }); err != nil {
					return err
				}
				if err := r.Report(step, map[string]float64{"v": p.Float("x")}); err != nil {
					return err
				}
			}
			return nil
		}, tune.Config{Space: line, Points: []tune.Point{{"x": 0.5}, {"x": 0.9}, {"x": 0.1}, {"x": 0.8}, {"x": 0.2}}, Metric: "v", Dir: dir, CheckpointBytes: budget, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, x := range res.Trials() {
			for _, c := range x.Checkpoints {
				got += fmt.Sprintf(" %d@%d", x.Number, c.Step)
			}
		}
		// The last trial's goes only when there is no room; the best one's never.
		if bytes := int64(1000 * strings.Count(want, "@")); got != want || bytesUnder(dir) != bytes {
			t.Errorf("budget %d: left are%s with %d bytes, want%s with %d", budget, got, bytesUnder(dir), want, bytes)
		}
	}
}

func TestEachClassOfFailureHasItsOwnBudgetAndPausesCostNothing(t *testing.T) {
	script := []error{
		tune.Fail(tune.NodeLost, errors.New("1")), tune.Fail(tune.OutOfMemory, errors.New("2")), nil, tune.Fail(tune.NodeLost, errors.New("3")),
		tune.Fail(tune.NodeLost, errors.New("4")), tune.Fail(tune.OutOfMemory, errors.New("5")), nil,
	}
	step := 0
	res, err := tune.Run(t.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		err := script[r.Attempt()-1]
		if err == nil {
			step++
			return r.Report(step, map[string]float64{"v": 1})
		}
		return err
	}, tune.Config{Space: line, Metric: "v", Scheduler: pauseOnce{}, Retries: tune.Retries{OutOfMemory: 2}, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if x := res.Trials()[0]; x.State != tune.Completed || x.Attempts != 7 || x.Failures[tune.NodeLost] != 3 || x.Failures[tune.OutOfMemory] != 2 {
		t.Errorf("got %s after %d attempts, failures %v: %s; want completed, 7, 3 and 2", x.State, x.Attempts, x.Failures, x.Error)
	}
}

// pauseOnce pauses at step 1.
type pauseOnce struct{ tune.FIFO }

func (pauseOnce) Reported(v tune.View, trial int, _ *rand.Rand) tune.Decision {
	d := tune.Go()
	if lastStep(v.Trial(trial)) == 1 {
		d.Action = tune.Pause
	}
	return d
}

func (pauseOnce) Next(v tune.View) tune.TrialChoice {
	for t := range v.Trials() {
		if t.State == tune.Paused {
			return tune.TrialChoice{Kind: tune.ChoosePaused, Trial: t.Number}
		}
	}
	return tune.TrialChoice{}
}

// chain pauses trials 0 and 1; when trial 2 reports, 1 is to take 0's checkpoint, 0 is to take 2's,
// and 1 to go on.
type chain struct{ tune.FIFO }

func (chain) Reported(v tune.View, trial int, _ *rand.Rand) tune.Decision {
	d := tune.Go()
	switch {
	case v.Trial(trial).Attempts > 1:
		d.Action = tune.Complete
	case trial < 2:
		d.Action = tune.Pause
	default:
		d.Others = []tune.TrialDecision{{Trial: 1, Action: tune.Exploit, Donor: 0}, {Trial: 0, Action: tune.Exploit, Donor: 2}, {Trial: 1, Action: tune.GoOn}}
	}
	return d
}

func TestACheckpointStaysForWhoGoesOnFromItWhenItsTrialHasLeftIt(t *testing.T) {
	dir := t.TempDir()
	res, err := tune.Run(t.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		from, step, ok := r.Restore()
		if ok {
			b, err := os.ReadFile(filepath.Join(from, "whose"))
			if err != nil || string(b) != "0" || r.Trial() != 1 || r.Donor() != 0 {
				return fmt.Errorf("trial %d goes on from trial %d's checkpoint %q: %w", r.Trial(), r.Donor(), b, err)
			}
		}
		if r.Trial() == 1 && r.Attempt() == 2 && !ok {
			return errors.New("trial 1 has lost the checkpoint of trial 0")
		}
		if err := r.Checkpoint(step+2, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "whose"), fmt.Append(nil, r.Trial()), 0o666)
		}); err != nil {
			return err
		}
		return r.Report(step+2, map[string]float64{"v": 1})
	}, tune.Config{Space: line, Samples: 3, Metric: "v", Dir: dir, Scheduler: chain{}, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if x := res.Trials()[1]; x.State != tune.Completed || len(x.Changes) != 1 || !x.Params.Equal(res.Trials()[0].Changes[0].Before) {
		t.Errorf("trial 1: %s (%s) with %v after %+v", x.State, x.Error, x.Params, x.Changes)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "trials", "trial-000000", "step-*"))
	if len(left) != 0 {
		t.Errorf("trial 0 still has %v, which nobody goes on from", left)
	}
}

func bytesUnder(dir string) (n int64) {
	files, _ := filepath.Glob(filepath.Join(dir, "trials", "*", "step-*", "[^.]*")) // not the checksums
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			n += info.Size()
		}
	}
	return n
}

// recorder is an observer.
type recorder struct {
	kinds  []tune.EventKind
	next   uint64
	broken bool
	closed int
}

func (r *recorder) Observe(v tune.View, e tune.Event) {
	r.broken = r.broken || e.Seq != r.next || v.Len() <= e.Trial && e.Kind == tune.EventStart
	r.next = e.Seq + 1
	r.kinds = append(r.kinds, e.Kind)
}

func (r *recorder) Close(v tune.View) error { r.closed = v.Count(tune.Completed); return nil }

func TestObserversSeeEveryEventInOrder(t *testing.T) {
	o := &recorder{}
	dir := t.TempDir()
	if _, err := tune.Run(t.Context(), train(3), tune.Config{Space: line, Samples: 10, Parallel: 4, Dir: dir, Observers: []tune.Observer{o}, Logger: quiet}); err != nil {
		t.Fatal(err)
	}
	var logged []tune.EventKind
	if err := tune.ReadLog(dir, func(e tune.Event) error { logged = append(logged, e.Kind); return nil }); err != nil {
		t.Fatal(err)
	}
	if o.broken || !slices.Equal(o.kinds, logged) || o.closed != 10 {
		t.Errorf("observed %d events (out of order: %t) and closed with %d completed; the log has %d", len(o.kinds), o.broken, o.closed, len(logged))
	}
}

// hosts is a runner with two places, one of which goes away.
type hosts struct {
	places chan int
	gone   chan struct{} // closed when host 1 is
	mu     sync.Mutex
	used   map[int]int
}

type place struct {
	h *hosts
	n int
}

func (p place) Location() string { return fmt.Sprintf("host%d", p.n) }
func (p place) Release() {
	if p.n != 1 { // host 1 is gone after its first trial
		p.h.places <- p.n
	}
}

func (h *hosts) Fits(r tune.Resources) error {
	if r.Slots > 2 {
		return fmt.Errorf("want %d slots on a host, the largest has 2", r.Slots)
	}
	return nil
}

func (h *hosts) Acquire(ctx context.Context, _ tune.Resources) (tune.Place, error) {
	select {
	case n := <-h.places:
		return place{h, n}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *hosts) Run(_ context.Context, a tune.Attempt, r *tune.Reporter) error {
	p := a.Place.(place)
	h.mu.Lock()
	h.used[p.n]++
	h.mu.Unlock()
	if p.n == 1 {
		close(h.gone)
		return tune.Fail(tune.NodeLost, errors.New("connection reset"))
	}
	<-h.gone
	return r.Report(1, map[string]float64{"v": a.Params.Float("x")})
}

func TestARunnerWithPlacesOfItsOwnLosesOneAndTheTrialRunsElsewhere(t *testing.T) {
	h := &hosts{places: make(chan int, 2), gone: make(chan struct{}), used: map[int]int{}}
	h.places <- 1
	h.places <- 2
	cfg := tune.Config{Space: line, Samples: 6, Parallel: 2, Metric: "v", Runner: h, Logger: quiet}
	res, err := tune.Run(t.Context(), nil, cfg)
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, x := range res.Trials() {
		if x.State != tune.Completed || x.Location != "host2" {
			t.Errorf("trial %d: %s at %q, want completed at host2", x.Number, x.State, x.Location)
		}
		lost += x.Failures[tune.NodeLost]
	}
	if lost != 1 || h.used[1] != 1 || h.used[2] != 6 {
		t.Errorf("lost %d attempts, hosts ran %v; want 1, and 1 and 6", lost, h.used)
	}
	cfg.Resources.Slots = 3
	if _, err := tune.Run(t.Context(), nil, cfg); err == nil || !strings.Contains(err.Error(), "can never run: want 3 slots on a host, the largest has 2") {
		t.Errorf("a request that never fits: got %v", err)
	}
}

// panics is a scheduler with a bug.
type panics struct{ tune.FIFO }

func (panics) Reported(tune.View, int, *rand.Rand) tune.Decision { panic("index out of range") }

func TestABrokenSchedulerEndsTheSearchWithAnError(t *testing.T) {
	dir := t.TempDir()
	cfg := tune.Config{Space: line, Samples: 3, Parallel: 2, Metric: "accuracy", Scheduler: panics{}, Dir: dir, Resume: tune.ResumeAuto, Logger: quiet}
	if _, err := tune.Run(t.Context(), train(2), cfg); err == nil || !strings.Contains(err.Error(), "panic: index out of range") {
		t.Errorf("got %v, want the panic", err)
	}
	cfg.Scheduler = nil // mended
	if res, err := tune.Run(t.Context(), train(2), cfg); err != nil || len(res.Trials()) != 3 {
		t.Errorf("mended: got %v", err)
	}
}

func TestAResultIsShownAndLoadedAgain(t *testing.T) {
	dir := t.TempDir()
	cfg := tune.Config{Name: "toy", Space: line, Samples: 9, Metric: "accuracy", Dir: dir, Logger: quiet}
	res, err := tune.Run(t.Context(), train(4), cfg)
	if err != nil {
		t.Fatal(err)
	}
	v := res.View()
	if v.Len() != 9 || v.Count(tune.Completed) != 9 || v.Metric() != "accuracy" || v.Elapsed() != res.Elapsed || v.Result(v.Trial(res.BestTrial().Number)) != res.Value(res.BestTrial()) {
		t.Errorf("view: got %d trials, %d completed, metric %q, best %v", v.Len(), v.Count(tune.Completed), v.Metric(), v.Result(v.Trial(res.BestTrial().Number)))
	}
	again, err := tune.Load(dir, cfg)
	if err != nil || again.DecisionHash() != res.DecisionHash() || again.Value(again.BestTrial()) != res.Value(res.BestTrial()) || again.Name != "toy" {
		t.Errorf("loaded: got %+v (%v)", again, err)
	}
	want := tune.CurvePanel(res.View())
	want.Title = "toy"
	err = res.TrainingCurves("curves.png", func(file string, panels ...metrics.Panel) error {
		if diff := cmp.Diff([]metrics.Panel{want}, panels); file != "curves.png" || diff != "" {
			t.Errorf("drawn into %s: -want +got\n%s", file, diff)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	other := errors.New("a picture of another kind")
	err = res.TrainingCurves("curves.gif", func(string, ...metrics.Panel) error { return other })
	if !errors.Is(err, other) || !strings.Contains(err.Error(), "study toy") {
		t.Errorf("got error %v, want one that names study toy and wraps that of drawing", err)
	}
}

// A search whose first trials all fail has a mistake that is in all of them.
func TestASearchWhoseFirstTrialsFailEndsEarly(t *testing.T) {
	broken := func(context.Context, tune.Params, *tune.Reporter) error { panic("no such file") }
	for _, tc := range []struct{ limit, want int }{{0, 5}, {2, 2}, {-1, 9}} {
		cfg := tune.Config{Space: line, Samples: 9, Metric: "v", FirstFailures: tc.limit, Logger: quiet}
		res, err := tune.Run(t.Context(), broken, cfg)
		if res == nil || len(res.Trials()) != tc.want {
			t.Fatalf("FirstFailures %d: got %+v, %v, want %d trials", tc.limit, res, err, tc.want)
		}
		if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "panic: no such file") {
			t.Errorf("FirstFailures %d: got %q, want one line with the panic", tc.limit, err)
		}
		if want := fmt.Sprintf("the first %d trials have failed, and none has reported", tc.want); tc.limit >= 0 != strings.Contains(err.Error(), want) {
			t.Errorf("FirstFailures %d: got %v, want %q", tc.limit, err, want)
		}
	}
	// One that has reported shows that the others might, too.
	n := 0
	res, err := tune.Run(t.Context(), func(ctx context.Context, p tune.Params, r *tune.Reporter) error {
		if n++; n > 1 {
			return errors.New("broken")
		}
		return r.Report(1, map[string]float64{"v": 1})
	}, tune.Config{Space: line, Samples: 9, Metric: "v", Logger: quiet})
	if err != nil || len(res.Trials()) != 9 {
		t.Errorf("after a report: got %+v, %v, want 9 trials", res, err)
	}
}

// Folders of searches that were killed go when the next one begins.
func TestFoldersOfAKilledSearchGo(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	left := filepath.Join(temp, "paragon-study-123")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := tune.Run(t.Context(), train(1), tune.Config{Space: line, Metric: "accuracy", Logger: quiet}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Errorf("%s is still there", left)
	}
}
