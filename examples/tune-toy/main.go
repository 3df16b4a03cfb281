// Command tune-toy searches with a training that only draws its curves: the example of AutoGluon's
// tutorial. 20 trials draw a learning rate and a weight decay; at epoch e the accuracy is 1 -
// 1.8^-x with x between e-1 and 2(e-1).
//
//	tune-toy
//	tune-toy --scheduler asha --trials 100 --parallel 8
//	tune-toy --resume
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/paragon-train/paragon/metrics/plot"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/show"
	"github.com/paragon-train/paragon/version"
)

func main() {
	var s settings
	flag.IntVar(&s.trials, "trials", 20, "trials to run")
	flag.IntVar(&s.epochs, "epochs", 10, "epochs of each trial")
	flag.IntVar(&s.parallel, "parallel", 2, "trials that run at once")
	flag.StringVar(&s.scheduler, "scheduler", "fifo", "fifo: all trials run to their end; asha: poor ones are stopped")
	flag.DurationVar(&s.epochTime, "epoch-time", 100*time.Millisecond, "time that an epoch takes")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the search")
	flag.StringVar(&s.dir, "dir", "runs/toy", "folder of the search")
	flag.BoolVar(&s.resume, "resume", false, "resume the search in --dir")
	version.AddFlag(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if _, err := search(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "tune-toy:", err)
		if errors.Is(err, tune.ErrExists) {
			fmt.Fprintln(os.Stderr, "tune-toy: --resume goes on with it; another --dir begins a new search")
		}
		if ctx.Err() != nil {
			fmt.Fprintln(os.Stderr, "tune-toy: all reports are saved; --resume continues")
		}
		os.Exit(1)
	}
}

// settings are what the flags ask for.
type settings struct {
	// A trial has so many epochs, which take so long.
	epochs    int
	epochTime time.Duration

	// trials run in all, parallel of them at once; scheduler names what stops them.
	trials, parallel int
	scheduler        string
	seed             uint64

	// dir is the folder of the search; resume goes on with the one there.
	dir    string
	resume bool
}

// train is one trial. Its numbers depend on the trial's seed alone.
func (s settings) train(ctx context.Context, p tune.Params, r *tune.Reporter) error {
	random := rand.New(rand.NewPCG(r.Seed(), 1))
	for e := range s.epochs {
		select {
		case <-time.After(s.epochTime):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		x := float64(e) + float64(e)*random.Float64()
		if err := r.Report(e+1, map[string]float64{"accuracy": 1 - math.Pow(1.8, -x)}); err != nil {
			return err
		}
	}
	return nil
}

// search tries the defaults of the space first, then samples, and draws the curves of all trials.
func search(ctx context.Context, s settings) (*tune.Result, error) {
	cfg := tune.Config{
		Name:   "toy",
		Space:  tune.Space{tune.Real("lr", 1e-3, 1e-2).Log(), tune.Real("wd", 1e-3, 1e-2)},
		Metric: "accuracy", Mode: tune.Max,
		Samples: s.trials, DefaultFirst: true, Parallel: s.parallel, Seed: s.seed, Dir: s.dir,
		Observers: []tune.Observer{show.NewStatus(os.Stdout), show.NewFiles(s.dir)},
	}
	switch s.scheduler {
	case "fifo":
	case "asha":
		cfg.Scheduler = &schedule.ASHA{MaxStep: s.epochs}
	default:
		return nil, fmt.Errorf("--scheduler is %q, want fifo or asha", s.scheduler)
	}
	if s.resume {
		cfg.Resume = tune.ResumeAuto
	}
	result, err := tune.Run(ctx, s.train, cfg)
	if err != nil {
		return result, err
	}
	curves := filepath.Join(s.dir, "curves.png")
	if err := result.TrainingCurves(curves, plot.Curves); err != nil {
		return result, err
	}
	fmt.Printf("\nThe best configuration and accuracy are: %v, %.4f\nCurves: %s\n", result.BestTrial().Params, result.Value(result.BestTrial()), curves)
	return result, nil
}
