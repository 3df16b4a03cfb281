// Command tune-distributed searches over trials that are distributed jobs, as the example of
// Horovod with Ray Tune does: the epochs 1, 2 and 3 are an axis of the grid and each is tried with
// two learning rates, so there are six trials. Each trial is a job of two workers and a server; the
// workers train a linear regression together through kvstore, and rank 0's report counts.
//
//	tune-distributed                                   (the program launch stands beside it, or in PATH)
//	tune-distributed --hosts hosts --address 10.0.0.1
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/show"
	"github.com/paragon-train/paragon/version"
)

func main() {
	var s settings
	flag.IntVar(&s.slots, "slots", 2, "workers of a trial")
	flag.IntVar(&s.samples, "samples", 2, "learning rates for each number of epochs")
	flag.IntVar(&s.parallel, "parallel", 1, "trials that run at once")
	flag.StringVar(&s.dir, "dir", "runs/distributed", "folder of the search")
	flag.BoolVar(&s.resume, "resume", false, "resume the search in --dir")
	flag.StringVar(&s.hosts, "hosts", "", "file of hosts that run trials, one on each line: HOST [slots=N] [gpus=N] [cpus=N]")
	flag.StringVar(&s.address, "address", "", "with --hosts: the address at which they reach this machine")
	flag.StringVar(&s.folder, "folder", "", "with --hosts: folder there that the current one is copied to")
	version.AddFlag(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	_, err := search(ctx, s)
	if code := tune.ExitCode(err); code != 0 {
		fmt.Fprintln(os.Stderr, "tune-distributed:", err)
		if errors.Is(err, tune.ErrExists) {
			fmt.Fprintln(os.Stderr, "tune-distributed: --resume goes on with it; another --dir begins a new search")
		}
		os.Exit(code)
	}
}

// settings are what the flags ask for.
type settings struct {
	// slots are the workers of a trial.
	slots int

	// samples are the learning rates for each number of epochs; parallel trials run at once.
	samples, parallel int

	// dir is the folder of the search; resume goes on with the one there.
	dir    string
	resume bool

	// hosts is the file of hosts that run trials; none: this machine runs them. They reach it at
	// the address, and have a copy of the current folder in the folder.
	hosts, address, folder string
}

// search runs in two kinds of processes: in the one that searches, and in each worker of a trial,
// where tune.Run runs train once and returns a *tune.TrialEnded.
func search(ctx context.Context, s settings) (*tune.Result, error) {
	jobs := tune.Distributed(tune.Resources{Hosts: 1, Slots: s.slots, CPUsPerSlot: 1, Servers: 1})
	jobs.HostFile, jobs.Address, jobs.Folder = s.hosts, s.address, s.folder
	cfg := tune.Config{
		Name:   "distributed",
		Space:  tune.Space{tune.Grid("epochs", 1, 2, 3), tune.Real("lr", 1e-3, 1e-1).Log()},
		Metric: "loss", Mode: tune.Min, Scope: tune.LastReport,
		Samples: s.samples, Parallel: s.parallel, Seed: 1, Dir: s.dir, Runner: jobs,
		Observers: []tune.Observer{show.NewStatus(os.Stdout), show.NewFiles(s.dir)},
	}
	if s.resume {
		cfg.Resume = tune.ResumeAuto
	}
	result, err := tune.Run(ctx, train, cfg)
	if err != nil {
		return result, err
	}
	fmt.Printf("\nBest hyperparameters found were: %v\nloss %.6f, trial %d of %d\n", result.BestTrial().Params, result.Value(result.BestTrial()), result.BestTrial().Number, len(result.Trials()))
	return result, nil
}

// There are so many examples of so many numbers; batch is how many a worker takes in a step.
const (
	features = 16
	examples = 2048
	batch    = 32
)

// train is one worker of one trial.
func train(ctx context.Context, p tune.Params, r *tune.Reporter) (err error) {
	kv, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return err
	}
	defer func() { err = kvstore.Leave(kv, err) }()
	fmt.Printf("worker %d of %d: %v\n", kv.Rank(), kv.NumWorkers(), p)

	// All workers draw the same examples, and each trains on its own.
	xs, ys := draw()
	weight, gradient := make([]float32, features), make([]float32, features)
	if err := kv.SetOptimizer(ctx, optim.Config{Name: "sgd", LearningRate: p.Float("lr"), Reduction: optim.Mean}); err != nil {
		return err
	}
	if err := kv.Init(ctx, "weight", weight); err != nil {
		return err
	}
	// The servers divide by the examples of all workers.
	weighted := kv.Weighted(batch, false)
	steps := examples / batch / kv.NumWorkers()
	for epoch := 1; epoch <= p.Int("epochs"); epoch++ {
		var loss float64
		for step := range steps {
			clear(gradient)
			for b := range batch {
				n := (step*batch+b)*kv.NumWorkers() + kv.Rank()
				diff := -ys[n]
				for i, x := range xs[n] {
					diff += x * weight[i]
				}
				loss += float64(diff*diff) / 2 / batch / float64(steps)
				for i, x := range xs[n] {
					gradient[i] += diff * x
				}
			}
			if err := weighted.PushPull(ctx, "weight", [][]float32{gradient}, [][]float32{weight}); err != nil {
				return err
			}
		}
		// Every worker reports; rank 0's loss counts, and all get the same answer.
		if err := r.Report(epoch, map[string]float64{"loss": loss}); err != nil {
			return err
		}
	}
	return nil
}

// draw makes the examples, y = x·truth, from a fixed seed.
func draw() (xs [][]float32, ys []float32) {
	random := rand.New(rand.NewPCG(1, 2))
	truth, xs, ys := make([]float32, features), make([][]float32, examples), make([]float32, examples)
	for i := range truth {
		truth[i] = float32(random.NormFloat64())
	}
	for n := range xs {
		xs[n] = make([]float32, features)
		for i := range xs[n] {
			xs[n][i] = float32(random.NormFloat64())
			ys[n] += xs[n][i] * truth[i]
		}
	}
	return xs, ys
}
