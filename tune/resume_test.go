package tune_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/suggest"
)

func TestResumeModesTakeUpWhatTheySay(t *testing.T) {
	// The first run: trial 0 completes, 1 fails, 2 and 3 run when it is interrupted, of 6.
	first := func(t *testing.T, dir string) {
		ctx, cancel := context.WithCancelCause(t.Context())
		var running atomic.Int32
		_, err := tune.Run(ctx, func(ctx context.Context, p tune.Params, r *tune.Reporter) error {
			if r.Trial() == 1 {
				return errors.New("no luck")
			}
			if err := r.Checkpoint(1, func(dir string) error { return os.WriteFile(filepath.Join(dir, "x"), nil, 0o666) }); err != nil {
				return err
			}
			if err := r.Report(1, map[string]float64{"v": 1}); err != nil || r.Trial() == 0 {
				return err
			}
			if running.Add(1) == 2 {
				cancel(errors.New("enough for today"))
			}
			<-ctx.Done()
			return ctx.Err()
		}, tune.Config{Space: line, Samples: 6, Parallel: 2, Dir: dir, Metric: "v", Logger: quiet})
		if err == nil || !strings.Contains(err.Error(), "interrupted: enough for today") {
			t.Fatalf("first run: got %v", err)
		}
	}
	for _, tc := range []struct {
		mode tune.ResumeMode
		want string // trial: attempt, restored step
	}{
		{tune.ResumeAuto, "2:2@1 3:2@1 4:1@-1 5:1@-1"},
		{tune.ResumeErrored, "1:2@-1 2:2@1 3:2@1 4:1@-1 5:1@-1"},
		{tune.RestartErrored, "1:2@-1 2:2@1 3:2@1 4:1@-1 5:1@-1"},
		{tune.ErroredOnly, "1:2@-1"},
		{tune.ResumeNew, "4:1@-1 5:1@-1"},
	} {
		t.Run(string(tc.mode), func(t *testing.T) {
			dir := t.TempDir()
			first(t, dir)
			var ran [6]string
			cfg := tune.Config{Space: line, Samples: 6, Parallel: 1, Dir: dir, Metric: "v", Resume: tc.mode, Logger: quiet}
			res, err := tune.Run(t.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
				_, step, _ := r.Restore()
				ran[r.Trial()] = fmt.Sprintf("%d:%d@%d", r.Trial(), r.Attempt(), step)
				return r.Report(2, map[string]float64{"v": 2})
			}, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(strings.Fields(strings.Join(ran[:], " ")), " "); got != tc.want {
				t.Errorf("ran %s, want %s", got, tc.want)
			}
			replayed, err := tune.Replay(dir, cfg)
			if err != nil || replayed.DecisionHash != res.DecisionHash() {
				t.Errorf("replay: %v, hash %.8s, want %.8s", err, replayed.DecisionHash, res.DecisionHash())
			}
		})
	}
}

func TestTwoSearchesCannotShareAFolder(t *testing.T) {
	cfg := tune.Config{Space: line, Dir: t.TempDir(), Resume: tune.ResumeAuto, Logger: quiet}
	s, err := tune.NewStudy(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tune.NewStudy(cfg); !errors.Is(err, tune.ErrLocked) {
		t.Errorf("second study: got %v, want %v", err, tune.ErrLocked)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = tune.NewStudy(cfg); err != nil {
		t.Fatalf("after Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Resume = tune.ResumeNever
	if _, err := tune.NewStudy(cfg); !errors.Is(err, tune.ErrExists) {
		t.Errorf("without Resume: got %v, want %v", err, tune.ErrExists)
	}
	cfg.Space = tune.Space{tune.Bool("other")}
	if _, err := tune.NewStudy(cfg); !errors.Is(err, tune.ErrExists) {
		t.Errorf("another search without Resume: got %v, want %v", err, tune.ErrExists)
	}
}

func TestATimeoutEndsTheSearchAndALongerOneGoesOn(t *testing.T) {
	dir := t.TempDir()
	run := func(timeout time.Duration) (res *tune.Result, took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var err error
			res, err = tune.Run(t.Context(), func(ctx context.Context, p tune.Params, r *tune.Reporter) error {
				_, from, _ := r.Restore()
				for step := max(from, 0) + 1; step <= 10; step++ {
					select {
					case <-time.After(time.Minute):
					case <-ctx.Done():
						return ctx.Err()
					}
					if err := r.Checkpoint(step, func(string) error { return nil }); err != nil {
						return err
					}
					if err := r.Report(step, map[string]float64{"v": p.Float("x")}); err != nil {
						return err
					}
				}
				return nil
			}, tune.Config{Space: line, Samples: 3, Metric: "v", Timeout: timeout, Dir: dir, Resume: tune.ResumeAuto, Logger: quiet})
			if err != nil {
				t.Error(err)
			}
			took = time.Since(start)
		})
		return res, took
	}
	res, took := run(15*time.Minute + time.Second)
	if took.Round(time.Second) != 15*time.Minute+time.Second || res.Halted != "timeout of 15m1s" {
		t.Errorf("the search took %v (%q), want 15m1s", took, res.Halted)
	}
	if a, b := res.Trials()[0], res.Trials()[1]; a.State != tune.Completed || b.State != tune.Stopped || lastStep(&b) != 5 || len(res.Trials()) != 2 {
		t.Errorf("got %s, %s at step %d, %d trials; want completed, stopped at 5, 2 trials", a.State, b.State, lastStep(&b), len(res.Trials()))
	}
	res, took = run(time.Hour)
	if took.Round(time.Minute) != 15*time.Minute {
		t.Errorf("the rest took %v, want 15m: 5 steps of trial 1 and 10 of trial 2", took)
	}
	for _, x := range res.Trials() {
		if x.State != tune.Completed || len(x.Reports) != 10 {
			t.Errorf("trial %d: %s with %d reports, want completed with 10", x.Number, x.State, len(x.Reports))
		}
	}
}

// The search that is killed: 4 at once, pauses, checkpoints, and a scheduler with a state.
type halving struct {
	tune.FIFO
	at map[int][]float64
}

func (h *halving) Reported(v tune.View, trial int, _ *rand.Rand) tune.Decision {
	t := v.Trial(trial)
	r, _ := t.Last()
	d := tune.Go()
	if h.at == nil {
		h.at = map[int][]float64{}
	}
	if r.Step%3 != 0 {
		return d
	}
	better := 0
	for _, x := range h.at[r.Step] {
		if x > r.Value {
			better++
		}
	}
	h.at[r.Step] = append(h.at[r.Step], r.Value)
	d.Value, d.Cutoff, d.Rule = r.Value, float64(better), "halving"
	switch {
	case r.Step == 9:
		d.Action = tune.Complete
	case better*2 > len(h.at[r.Step]):
		d.Action = tune.Stop
	case better > 0:
		d.Action = tune.Pause
	}
	return d
}

func (h *halving) Next(v tune.View) tune.TrialChoice {
	if v.Exhausted() || v.Count(tune.Paused) > 5 {
		for t := range v.Trials() {
			if t.State == tune.Paused {
				return tune.TrialChoice{Kind: tune.ChoosePaused, Trial: t.Number, Rule: "go on"}
			}
		}
	}
	return tune.TrialChoice{}
}

// rules are the searches that are killed: the last part of the folder's name says which.
var rules = map[string]func(*tune.Config){
	"halving": func(c *tune.Config) { c.Scheduler = &halving{} },
	"asha with tpe": func(c *tune.Config) {
		c.Scheduler, c.Suggester = &schedule.ASHA{Rule: schedule.Promotion, MaxStep: 9}, &suggest.TPE{}
	},
	"hyperband with sobol": func(c *tune.Config) {
		c.Scheduler, c.Suggester = &schedule.Hyperband{MaxStep: 9}, &suggest.Sobol{}
	},
	"hyperband by a deadline": func(c *tune.Config) { // each process has another one
		c.Scheduler, c.Deadline = &schedule.Hyperband{MaxStep: 9}, time.Now().Add(time.Hour)
	},
	"pbt": func(c *tune.Config) {
		c.Scheduler, c.CheckpointBytes = &schedule.PBT{Population: 40, Interval: 2}, 0
	},
}

func killedConfig(dir string) tune.Config {
	c := tune.Config{Space: line, Samples: 40, Parallel: 4, Seed: 3, Metric: "v", Dir: dir, Resume: tune.ResumeAuto, CheckpointBytes: 400, Logger: quiet}
	rules[filepath.Base(dir)](&c)
	return c
}

// value is what a trial reports: it depends on the parameters and the step alone.
func value(p tune.Params, step int) float64 { return curve(p.Float("x"), step) }

func killedTrial(_ context.Context, p tune.Params, r *tune.Reporter) error {
	from := 0
	if dir, step, ok := r.Restore(); ok {
		b, err := os.ReadFile(filepath.Join(dir, "step"))
		if err != nil || string(b) != fmt.Sprint(step) {
			return fmt.Errorf("checkpoint of step %d: %q (%v)", step, b, err)
		}
		from = step
	}
	for step := from + 1; step <= 9; step++ {
		if step%2 == 0 {
			if err := r.Checkpoint(step, func(dir string) error { return os.WriteFile(filepath.Join(dir, "step"), fmt.Append(nil, step), 0o666) }); err != nil {
				return err
			}
		}
		if err := r.Report(step, map[string]float64{"v": value(p, step)}); err != nil {
			return err
		}
	}
	return nil
}

// TestMain runs the search in a process of its own if it is told to.
func TestMain(m *testing.M) {
	if dir := os.Getenv("TUNE_TEST_SEARCH"); dir != "" {
		_, err := tune.Run(context.Background(), killedTrial, killedConfig(dir))
		fmt.Println("done:", err)
		os.Exit(0)
	}
	if text := os.Getenv(killedFit); text != "" {
		searchFit(text)
		os.Exit(0)
	}
	if dir := os.Getenv(killedElastic); dir != "" {
		searchElastic(dir)
		os.Exit(0)
	}
	code := m.Run()
	if built.folder != "" {
		os.RemoveAll(built.folder)
	}
	os.Exit(code)
}

func TestAParallelSearchThatIsKilledGoesOnAndReplays(t *testing.T) {
	each := 1
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		each = 2
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		kills := 0
		for range each {
			dir := filepath.Join(t.TempDir(), rule)
			for n := 0; ; n++ {
				before := logOf(dir)
				limit := len(before) + 1 + rng.IntN(15_000) // killed when the log has grown so far
				if n == 3 {
					limit = 1 << 30
				}
				if !search(t, dir, limit) {
					break
				}
				kills++
				// What was on the disk before stands, but for a line that was not
				// whole.
				if whole := before[:bytes.LastIndexByte(before, '\n')+1]; !bytes.HasPrefix(logOf(dir), whole) {
					t.Fatalf("%s: the log of %d bytes is not the beginning of what it was when the search went on", rule, len(whole))
				}
			}
			check(t, rule, dir)
		}
		if t.Logf("%s: %d searches, killed %d times", rule, each, kills); kills < each {
			t.Errorf("%s: %d searches were killed only %d times", rule, each, kills)
		}
	}
}

func logOf(dir string) []byte {
	b, _ := os.ReadFile(filepath.Join(dir, "log.jsonl")) // none before the first search
	return b
}

// search runs the search in another process, and kills it when its log has so many bytes. It
// says whether it was killed.
func search(t *testing.T, dir string, limit int) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "TUNE_TEST_SEARCH="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan string, 1)
	go func() {
		s, err := bufio.NewReader(out).ReadString('\n')
		if err != nil && err != io.EOF {
			s = err.Error()
		}
		done <- s
	}()
	every := time.NewTicker(time.Millisecond)
	defer every.Stop()
	for {
		select {
		case said := <-done:
			if err := cmd.Wait(); err != nil || said != "done: <nil>\n" {
				t.Fatalf("the search ended with %q (%v)", said, err)
			}
			return false
		case <-every.C:
			if info, err := os.Stat(filepath.Join(dir, "log.jsonl")); err == nil && info.Size() >= int64(limit) {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				said := <-done
				_ = cmd.Wait()
				return !strings.HasPrefix(said, "done")
			}
		}
	}
}

func check(t *testing.T, rule, dir string) {
	t.Helper()
	res, err := tune.Load(dir, killedConfig(dir))
	if err != nil {
		t.Fatalf("%s: %v", rule, err)
	}
	if n := len(res.Trials()); n != 40 {
		t.Errorf("%s: got %d trials, want 40", rule, n)
	}
	for _, x := range res.Trials() {
		if !x.State.Final() && x.State != tune.Paused {
			t.Errorf("%s: trial %d is %s at the end", rule, x.Number, x.State)
		}
		for i, r := range x.Reports {
			if len(x.Changes) == 0 && (r.Step != i+1 || r.Value != value(x.Params, r.Step)) { // an exploit goes on from another trial's step
				t.Errorf("%s: trial %d report %d: step %d value %v, want step %d value %v", rule, x.Number, i, r.Step, r.Value, i+1, value(x.Params, i+1))
			}
		}
	}
	replayed, err := tune.Replay(dir, killedConfig(dir))
	if err != nil || replayed.DecisionHash != res.DecisionHash() || replayed.Proposals != 40 {
		t.Errorf("%s: replay: %v, hash %.8s of %d proposals, want %.8s of 40", rule, err, replayed.DecisionHash, replayed.Proposals, res.DecisionHash())
	}
}
