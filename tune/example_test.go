package tune_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/tune"
)

// A search over 20 settings, four at once. The first is the space's default.
func ExampleRun() {
	space := tune.Space{
		tune.Real("lr", 1e-4, 1e-1).Log(),
		tune.Choice("optimizer", "sgd", "adam"),
		tune.Real("momentum", 0, 0.99).When("optimizer", "sgd"),
	}
	result, err := tune.Run(context.Background(), func(ctx context.Context, p tune.Params, r *tune.Reporter) error {
		for epoch := 1; epoch <= 10; epoch++ {
			off := math.Log10(p.Float("lr")) + 2 // best at 0.01
			accuracy := (1 - math.Pow(1.8, -float64(epoch))) * math.Exp(-off*off)
			if err := r.Report(epoch, map[string]float64{"accuracy": accuracy}); err != nil {
				return err
			}
		}
		return nil
	}, tune.Config{Space: space, Metric: "accuracy", Mode: tune.Max, Samples: 20, Parallel: 4, DefaultFirst: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("first: lr=%.4g\n", result.Trials()[0].Params.Float("lr"))
	fmt.Printf("best of %d: accuracy %.2f\n", len(result.Trials()), result.Value(result.BestTrial()))
	// Output:
	// first: lr=0.003162
	// best of 20: accuracy 1.00
}

// A search that is driven by hand.
func ExampleStudy() {
	study, err := tune.NewStudy(tune.Config{
		Space: tune.Space{tune.Int("layers", 1, 3)}, Metric: "loss", Mode: tune.Min,
		Points: []tune.Point{{"layers": 1}, {"layers": 2}, {"layers": 3}}, Samples: 3,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer study.Close()
	for {
		trial, err := study.Ask(context.Background())
		if errors.Is(err, tune.ErrDone) {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		loss := math.Abs(trial.Params.Float("layers") - 2)
		decision, err := study.Tell(trial.Number, 1, map[string]float64{"loss": loss})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(trial.Params, loss, decision.Action)
		if err := study.Finish(trial.Number, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("best:", study.Result().BestTrial().Params)
	// Output:
	// layers=1 1 continue
	// layers=2 0 continue
	// layers=3 1 continue
	// best: layers=2
}

// A trial that keeps checkpoints goes on from the newest when it was paused, lost its node, or
// the search was killed.
func ExampleReporter_Checkpoint() {
	failed := false
	trainable := func(ctx context.Context, p tune.Params, r *tune.Reporter) error {
		from := 0
		if dir, step, ok := r.Restore(); ok {
			state, err := os.ReadFile(filepath.Join(dir, "weights"))
			if err != nil {
				return err
			}
			from = step
			fmt.Printf("attempt %d goes on after step %d: %s\n", r.Attempt(), step, state)
		}
		for step := from + 1; step <= 3; step++ {
			if step == 3 && !failed {
				failed = true
				return tune.Fail(tune.NodeLost, errors.New("the host is gone"))
			}
			err := r.Checkpoint(step, func(dir string) error {
				return os.WriteFile(filepath.Join(dir, "weights"), fmt.Appendf(nil, "weights of step %d", step), 0o666)
			})
			if err != nil {
				return err
			}
			if err := r.Report(step, map[string]float64{"accuracy": float64(step)}); err != nil {
				return err
			}
		}
		return nil
	}
	result, err := tune.Run(context.Background(), trainable, tune.Config{Space: tune.Space{tune.Real("x", 0, 1)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(result.BestTrial().Reports), "reports,", result.BestTrial().Attempts, "attempts")
	// Output:
	// attempt 2 goes on after step 2: weights of step 2
	// 3 reports, 2 attempts
}

func ExampleSpaceOf() {
	type args struct {
		LearningRate float64 `hp:"log,1e-4,1e-1"`
		Optimizer    string  `hp:"choice,sgd,adam"`
		Momentum     float64 `hp:"0,0.99,when=optimizer:sgd,default=0.9"`
	}
	space, err := tune.SpaceOf(args{})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := space.Defaults(tune.MustParams("learning_rate", 0.01))
	if err != nil {
		fmt.Println(err)
		return
	}
	var a args
	if err := p.Decode(&a); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p)
	fmt.Printf("%+v\n", a)
	// Output:
	// learning_rate=0.01 optimizer=sgd momentum=0.9
	// {LearningRate:0.01 Optimizer:sgd Momentum:0.9}
}

// A search that ended, or was killed, goes on from the log in its folder with the same decisions.
// Replay recomputes all of them.
func ExampleReplay() {
	dir, err := os.MkdirTemp("", "search")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	config := func(samples int) tune.Config { // anew each time: suggesters and schedulers have state
		return tune.Config{Space: tune.Space{tune.Real("x", -1, 1)}, Metric: "loss", Mode: tune.Min, Samples: samples, Seed: 1, Dir: dir, Resume: tune.ResumeAuto}
	}
	for _, samples := range []int{5, 8} {
		trained := 0
		result, err := tune.Run(context.Background(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
			trained++
			return r.Report(1, map[string]float64{"loss": p.Float("x") * p.Float("x")})
		}, config(samples))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(len(result.Trials()), "trials, trained now:", trained)
	}
	replayed, err := tune.Replay(dir, config(8))
	fmt.Println(replayed.Proposals, "proposals and", replayed.Decisions, "decisions are the same:", err == nil)
	// Output:
	// 5 trials, trained now: 5
	// 8 trials, trained now: 3
	// 8 proposals and 8 decisions are the same: true
}

// A study's log is all that is needed to see what it found.
func ExampleReadResult() {
	dir, err := os.MkdirTemp("", "search")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	cfg := tune.Config{Space: tune.Space{tune.Grid("layers", 2, 4, 8)}, Metric: "accuracy", Dir: dir}
	if _, err := tune.Run(context.Background(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		return r.Report(1, map[string]float64{"accuracy": 1 - 1/p.Float("layers")})
	}, cfg); err != nil {
		fmt.Println(err)
		return
	}
	result, err := tune.ReadResult(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	best := result.BestTrial()
	fmt.Println("best of", len(result.Trials()), "trials:", best.Params, "with", result.Metric, result.Value(best))
	// Output: best of 3 trials: layers=8 with accuracy 0.875
}
