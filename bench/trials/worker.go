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

	"github.com/paragon-train/paragon/internal/testing/pacedmodel"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/worker"
)

// training is what each trial trains, for so many epochs.
func training(epochs int) pacedmodel.Config {
	return pacedmodel.Config{Examples: 2048, Epochs: epochs, InitialBatch: 32, MaxBatch: 512, Seed: 1, Step: 5 * time.Millisecond, Example: time.Millisecond}
}

// workOfSearch is a worker of a trial of tune.Run, and returns its exit code.
func workOfSearch() int {
	ctx, forget := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer forget()
	_, err := tune.Run(context.Background(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
		c := training(p.Int("epochs"))
		c.Leave = ctx.Done()
		c.Epoch = func(e worker.EpochInfo, _, workers int) error {
			return r.Report(e.Epoch+1, map[string]float64{"loss": e.Loss, "workers": float64(workers), "global_batch": float64(e.Adapt.Batch)})
		}
		return pacedmodel.Train(context.Background(), c)
	}, tune.Config{Name: studyName, Space: tune.Space{tune.Grid("epochs", 1)}, Metric: "loss", Mode: tune.Min})
	code := tune.ExitCode(err)
	if code != 0 {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

// workOfCommand is a worker of a trial of launch tune: it reports by lines.
func workOfCommand(args []string) error {
	flags := flag.NewFlagSet("command", flag.ContinueOnError)
	epochs := flags.Int("epochs", 1, "epochs to train")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, forget := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer forget()
	c := training(*epochs)
	c.Leave = ctx.Done()
	c.Epoch = func(e worker.EpochInfo, _, workers int) error {
		fmt.Printf("loss=%g workers=%d global_batch=%d step=%d\n", e.Loss, workers, e.Adapt.Batch, e.Epoch+1)
		return nil
	}
	if err := pacedmodel.Train(context.Background(), c); !errors.Is(err, kvstore.ErrRemoved) {
		return err
	}
	return nil
}
