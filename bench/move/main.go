// Command move measures how long the shards of a server need to be at another one, while a job trains: what happens on the host of a server that
// is being taken away.
//
//	go build -o bin/ ./launch ./bench/move
//	bin/move -mb 100,400,1000
//
// Each job is one of `launch -n 1 -s 2 --backups 1` on this machine: a worker trains a perceptron whose parameters have that size, and each server has
// the backups of the other's shards. Measured is the time until one of them is removed, and in a second job the time until both are: a third one has been
// started, has joined, and has a copy of all.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/bench/internal/launched"
	"github.com/paragon-train/paragon/bench/internal/perceptron"
	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/optim"
)

// What the workers are told.
const (
	layersEnv    = "PARAGON_MOVE_LAYERS"
	optimizerEnv = "PARAGON_MOVE_OPTIMIZER"
)

// width is that of a layer, whose weights have 16.8 MB.
const width = 2048

func main() {
	var err error
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		err = work()
	} else {
		err = measure()
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "move:", err)
		os.Exit(1)
	}
}

func work() error {
	layers, err := strconv.Atoi(os.Getenv(layersEnv))
	if err != nil {
		return fmt.Errorf("%s: %w", layersEnv, err)
	}
	return perceptron.Train(context.Background(), perceptron.Config{Layers: layers, Width: width, Classes: 10, Batch: 1, Examples: 1000, Pause: 10 * time.Millisecond,
		Optimizer: optim.Config{Name: os.Getenv(optimizerEnv), LearningRate: 1e-4}})
}

func measure() error {
	flags := flag.NewFlagSet("move", flag.ContinueOnError)
	sizes := flags.String("mb", "100,400,1000", "MB of parameters, with commas between them")
	optimizer := flags.String("optimizer", "sgd", "sgd, or adam, whose servers have three times the bytes")
	launch := flags.String("launch", "bin/launch", "the launch program")
	verbose := flags.Bool("v", false, "show what launch says")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	fmt.Println("| MB | a step | remove a server whose shards have backups | move all shards to a new server | for each GB |")
	fmt.Println("| ---: | ---: | ---: | ---: | ---: |")
	for s := range strings.SplitSeq(*sizes, ",") {
		mb, err := strconv.Atoi(s)
		if err != nil || mb < 1 {
			return fmt.Errorf("-mb %q: want numbers above 0", *sizes)
		}
		c := config{layers: max(1, (mb*1_000_000+2*width*width)/(4*width*width)), optimizer: *optimizer, launch: *launch, verbose: *verbose}
		size := float64(c.layers*4*width*width) / 1e6
		step, removed, err := c.run(ctx, false)
		if err != nil {
			return err
		}
		_, moved, err := c.run(ctx, true)
		if err != nil {
			return err
		}
		fmt.Printf("| %.0f | %.2f s | %.2f s | %.2f s | %.2f s |\n", size, step.Seconds(), removed.Seconds(), moved.Seconds(), moved.Seconds()/size*1000)
	}
	return nil
}

type config struct {
	layers            int
	optimizer, launch string
	verbose           bool
}

// run starts a job, and measures a step, and the time until one of its servers is removed, or all are that it began with.
func (c *config) run(ctx context.Context, all bool) (step, removed time.Duration, err error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	dir, err := os.MkdirTemp("", "paragon-move")
	if err != nil {
		return 0, 0, err
	}
	j, err := launched.Start(ctx, launched.Config{Dir: dir, Launch: c.launch, Show: c.verbose,
		Args: []string{"-n", "1", "-s", "2", "--backups", "1", "--env", layersEnv, "--env", optimizerEnv, "--", exe, "worker"},
		Env:  []string{layersEnv + "=" + strconv.Itoa(c.layers), optimizerEnv + "=" + c.optimizer}})
	if err != nil {
		os.RemoveAll(dir)
		return 0, 0, err
	}
	defer j.Close()
	status := func() (s control.Status, at uint64) {
		if j.Ask(ctx, control.Request{Op: control.OpStatus}, &s) == nil {
			for _, n := range s.Nodes {
				at = max(at, n.Step)
			}
		}
		return s, at
	}
	whole := func() bool { // each shard has a whole backup, where there may be one
		s, _ := status()
		for _, x := range s.Servers {
			if x.Filling > 0 {
				return false
			}
		}
		return s.Phase == control.Running
	}
	var first uint64
	err = j.Until(ctx, "the job trains", func() (bool, error) { _, first = status(); return first > 0, nil })
	if err == nil {
		begin, last := time.Now(), first
		err = j.Until(ctx, "three steps are done", func() (bool, error) { _, last = status(); return last >= first+3, nil })
		step = time.Since(begin) / time.Duration(max(last-first, 1))
	}
	if err == nil {
		err = j.Until(ctx, "the backups are whole", func() (bool, error) { return whole(), nil })
	}
	begin := time.Now()
	if err == nil && all {
		err = j.Ask(ctx, control.Request{Op: control.OpAddServer}, &control.Done{})
		if err == nil {
			err = j.Until(ctx, "the new server is there", func() (bool, error) {
				s, _ := status()
				return len(s.Servers) > 2 && s.Servers[2].Status == control.RankHere, nil
			})
		}
	}
	for rank := 1; err == nil && rank >= 0 && (all || rank == 1); rank-- {
		err = j.Until(ctx, fmt.Sprintf("server %d may go", rank), func() (bool, error) {
			err := j.Ask(ctx, control.Request{Op: control.OpRemoveServer, Rank: rank}, &control.Done{})
			if errors.Is(err, control.ErrLater) {
				return false, nil
			}
			return err == nil, err
		})
	}
	return step, time.Since(begin), j.Explain(err)
}
