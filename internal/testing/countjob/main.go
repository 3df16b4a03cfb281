// Command countjob is a worker's program for tests of whole jobs: it trains package countmodel's
// model, slowly until a file says that it may end.
//
//	launch -n 2 -s 2 -- countjob --checkpoints DIR --finish FILE
//
// Worker 0 prints each step with the number of workers, and each worker at the end how many uses of
// examples were lost and doubled: none, whatever happened to the processes of the job.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/testing/countmodel"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

const (
	examples, batch = 400, 5
	epochs          = 60
	// stepTime is how long a step takes until the file is there.
	stepTime  = 20 * time.Millisecond
	saveSteps = 10
)

func main() {
	checkpoints := flag.String("checkpoints", "", "folder for checkpoints")
	finish := flag.String("finish", "", "steps are quick once this file is there")
	flag.Parse()
	switch err := train(*checkpoints, *finish); {
	case errors.Is(err, worker.ErrRemoved):
		fmt.Println("left the job")
	case errors.Is(err, worker.ErrCheckpointed):
		fmt.Println("stopped with a checkpoint")
	case errors.Is(err, worker.ErrStopped):
		os.Exit(128 + int(syscall.SIGTERM))
	case err != nil:
		fmt.Fprintln(os.Stderr, "countjob:", err)
		os.Exit(1)
	}
}

func train(checkpoints, finish string) (err error) {
	ctx := context.Background()
	term, forget := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer forget()
	kv, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return err
	}
	defer func() {
		if errors.Is(err, worker.ErrRemoved) || errors.Is(err, worker.ErrStopped) {
			err = errors.Join(err, kv.Close())
			return
		}
		err = kvstore.Leave(kv, err)
	}()
	program, err := countmodel.Compile(examples)
	if err != nil {
		return err
	}
	defer program.Close()
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: kv, Programs: []*nn.Program{program}, Optimizer: countmodel.Optimizer})
	if err != nil {
		return err
	}
	defer trainer.Close()
	feed, err := countmodel.NewFeed(program, batch, kv.NumWorkers(), kv.Rank(), 7)
	if err != nil {
		return err
	}
	feed.Before = func(context.Context) error {
		if _, err := os.Stat(finish); err != nil {
			time.Sleep(stepTime)
		}
		return nil
	}
	if _, err = worker.Fit(ctx, worker.FitConfig{
		Trainer: trainer, Feed: feed, Epochs: epochs, Leave: term.Done(), Observers: []worker.Observer{stepPrinter{kv}},
		Checkpoint: worker.CheckpointConfig{Dir: checkpoints, EverySteps: saveSteps, Resume: checkpoints != "" && os.Getenv("PARAGON_RESUME") != "", Fallback: checkpoints != "" && os.Getenv("PARAGON_RESUME") != ""},
	}); err != nil {
		return err
	}
	lost, doubled := 0, 0
	for _, n := range countmodel.Counts(program) {
		lost, doubled = lost+max(0, epochs-n), doubled+max(0, n-epochs)
	}
	fmt.Printf("done: examples lost %d, doubled %d\n", lost, doubled)
	return nil
}

// A stepPrinter prints each step of worker 0.
type stepPrinter struct{ kv kvstore.Store }

func (p stepPrinter) Begin(worker.Run) {}
func (p stepPrinter) Step(s worker.StepInfo) {
	if p.kv.Rank() == 0 {
		fmt.Printf("step %d of epoch %d, %d done, workers %d\n", s.Step, s.Epoch, s.Done, s.Workers)
	}
}
func (p stepPrinter) Epoch(worker.EpochInfo) {}
func (p stepPrinter) End()                   {}
