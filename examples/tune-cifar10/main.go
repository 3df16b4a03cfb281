// Command tune-cifar10 searches the optimizer of a network on CIFAR-10: TPE proposes, ASHA (or
// another rule) stops what does not pay, and each trial is a job of two workers (or --workers) and
// a server.
//
//	tune-cifar10                                         (the program launch stands beside it, or in PATH)
//	tune-cifar10 --data data/cifar10 --model resnet18 --epochs 27 --trials 50 --parallel 4
//	tune-cifar10 --hosts hosts --address 10.0.0.1 --folder /home/me/job
//
// Without --data it trains LeNet on a few synthetic images.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/paragon-train/paragon/metrics/plot"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/show"
	"github.com/paragon-train/paragon/tune/suggest"
	"github.com/paragon-train/paragon/version"
)

func main() {
	var s settings
	flag.StringVar(&s.data, "data", "", "CIFAR-10: the binary archive (.tar.gz) or the folder of its .bin files; on hosts it must be there")
	flag.StringVar(&s.model, "model", "lenet", "lenet or resnet18")
	flag.IntVar(&s.examples, "train-examples", 0, "use only this many training images (0: all; of synthetic ones: 2,000)")
	flag.IntVar(&s.tests, "test-examples", 0, "use only this many test images (0: all; of synthetic ones: 500)")
	flag.IntVar(&s.epochs, "epochs", 9, "epochs of a trial that is not stopped")
	flag.IntVar(&s.trials, "trials", 12, "trials to run")
	flag.IntVar(&s.parallel, "parallel", 1, "trials that run at once")
	flag.IntVar(&s.workers, "workers", 2, "workers of a trial; with --hosts as many hosts")
	flag.StringVar(&s.rule, "scheduler", "asha", "what stops trials: asha, predict or fifo, which stops none")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the search")
	flag.StringVar(&s.hosts, "hosts", "", "file of hosts that run trials, one on each line: HOST [slots=N] [gpus=N] [cpus=N]; each worker of a trial runs on another of them")
	flag.StringVar(&s.address, "address", "", "with --hosts: the address at which they reach this machine")
	flag.StringVar(&s.folder, "folder", "", "with --hosts: folder there that the current one is copied to")
	flag.StringVar(&s.dir, "dir", "runs/tune-cifar10", "folder of the search")
	flag.BoolVar(&s.resume, "resume", false, "resume the search in --dir")
	flag.BoolVar(&s.again, "run-best", false, "train once more with the best parameters at the end")
	version.AddFlag(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := search(ctx, s)
	if code := tune.ExitCode(err); code != 0 {
		fmt.Fprintln(os.Stderr, "tune-cifar10:", err)
		if errors.Is(err, tune.ErrExists) {
			fmt.Fprintln(os.Stderr, "tune-cifar10: --resume goes on with it; another --dir begins a new search")
		}
		if errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, "tune-cifar10: all reports are saved; --resume continues")
		}
		os.Exit(code)
	}
}

// settings are what the flags ask for, in the search and in the workers of its trials.
type settings struct {
	// data is CIFAR-10's archive or folder; none: synthetic images. examples and tests are how many
	// images are used; 0: all.
	data            string
	examples, tests int

	// A trial trains the model for so many epochs on so many workers.
	model           string
	epochs, workers int

	// trials run in all, parallel of them at once; rule names what stops them.
	trials, parallel int
	rule             string
	seed             uint64

	// hosts is the file of hosts that run trials; none: this machine runs them. They reach it at
	// the address, and have a copy of the current folder in the folder.
	hosts, address, folder string

	// dir is the folder of the search; resume goes on with the one there.
	dir    string
	resume bool

	// again trains once more with the best parameters at the end.
	again bool
}

// scheduler is the rule that stops trials.
func (s settings) scheduler() (tune.Scheduler, error) {
	switch s.rule {
	case "asha":
		return &schedule.ASHA{MaxStep: s.epochs, Guard: &schedule.Guard{}}, nil
	case "predict":
		return &schedule.Predict{MaxStep: s.epochs}, nil
	case "fifo":
		return tune.FIFO{}, nil
	}
	return nil, fmt.Errorf("--scheduler is %q, want asha, predict or fifo", s.rule)
}

// space is what is searched: a learning rate for each optimizer, for they differ by orders of
// magnitude.
var space = tune.Space{
	tune.Choice("optimizer", "adam", "sgd"),
	tune.Real("adam_lr", 1e-4, 1e-2).Log().When("optimizer", "adam"),
	tune.Real("sgd_lr", 1e-3, 3e-1).Log().When("optimizer", "sgd"),
	tune.Real("momentum", 0.5, 0.98).When("optimizer", "sgd"),
	tune.Choice("batch", 16, 32, 64),
	tune.Real("weight_decay", 1e-6, 1e-2).Log(),
}

// search runs in the process that searches, and in each worker of a trial: there tune.Run trains
// once and returns a *tune.TrialEnded.
func search(ctx context.Context, s settings) error {
	if err := s.validate(); err != nil {
		return err
	}
	rule, err := s.scheduler()
	if err != nil {
		return err
	}
	resources := tune.Resources{Hosts: 1, Slots: s.workers, CPUsPerSlot: 1, Servers: 1}
	if s.hosts != "" {
		resources.Hosts, resources.Slots = s.workers, 1
	}
	jobs := tune.Distributed(resources)
	jobs.HostFile, jobs.Address, jobs.Folder = s.hosts, s.address, s.folder
	cfg := tune.Config{
		Name: "cifar10", Space: space, Metric: "accuracy", Mode: tune.Max,
		Samples: s.trials, Parallel: s.parallel, Seed: s.seed, Dir: s.dir,
		Suggester: &suggest.TPE{Startup: 5},
		Scheduler: rule,
		Runner:    jobs,
		Observers: []tune.Observer{show.NewStatus(os.Stdout), show.NewFiles(s.dir)},
	}
	if s.resume {
		cfg.Resume = tune.ResumeAuto
	}
	result, err := tune.Run(ctx, s.train, cfg)
	if err != nil {
		return err
	}
	curves, page := filepath.Join(s.dir, "curves.png"), filepath.Join(s.dir, "report.html")
	if err := errors.Join(result.TrainingCurves(curves, plot.Curves), show.HTML(page, result.Name, result.View())); err != nil {
		return err
	}
	fmt.Printf("\nBest: %v\naccuracy %.4f, trial %d of %d\nCurves: %s\nReport: %s\n", result.BestTrial().Params, result.Value(result.BestTrial()), result.BestTrial().Number, len(result.Trials()), curves, page)
	if s.again {
		t, err := result.RunBest(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("Once more with the best: accuracy %.4f\n", result.Value(t))
	}
	return nil
}
