// Command vit trains a vision transformer on CIFAR-10, alone or as a worker of a job:
//
//	vit --data data/cifar10
//	launch -n 2 -s 2 -- vit --data data/cifar10 --epochs 100
//
// The flags stand for DeiT's recipe, with the augmentation that package data has: AdamW, warm-up and
// a cosine, smoothed labels, and no weight decay of biases, normalisations, positions and the class
// token. Without --data it trains on synthetic images.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/version"
	"github.com/paragon-train/paragon/worker"
)

func main() {
	text, code := program.Ending(newApp().Run(os.Args))
	if text != "" {
		fmt.Fprintln(os.Stderr, "vit:", text)
	}
	os.Exit(code)
}

func newApp() *cli.App {
	return &cli.App{
		Name:            "vit",
		Usage:           "train a vision transformer on CIFAR-10",
		Version:         version.Text(),
		HideHelpCommand: true,
		Flags:           flags(),
		Action:          run,
		OnUsageError:    program.OnUsageError,
		Description: `Run it alone, or as a worker of a job:

   vit --epochs 2
   launch -n 2 -s 2 -- vit --data data/cifar10 --epochs 100
   launch -n 2 -s 2 --elastic-training-enabled -- vit --data data/cifar10 --checkpoint-dir checkpoints

Without --data it trains on synthetic images. --download fetches CIFAR-10 first.`,
	}
}

func run(c *cli.Context) error {
	if err := program.NoArguments(c); err != nil {
		return err
	}
	s := fromFlags(c)
	if err := s.validate(); err != nil {
		// Launch need not start it again.
		return kvstore.Final(err)
	}
	stop, leave, forget := program.Signals()
	defer forget()
	s.stop, s.leave = stop, leave
	return train(context.Background(), s)
}

// settings are what the flags ask for.
type settings struct {
	images     imageSettings
	model      modelSettings
	training   trainingSettings
	store      string
	checkpoint worker.CheckpointConfig
	output     program.Output

	// stop is closed by Ctrl-C: all workers end after the same step.
	stop <-chan struct{}

	// leave is closed by SIGTERM: this worker leaves the job, if that can go on without it.
	leave <-chan struct{}
}

func flags() []cli.Flag {
	store := &cli.StringFlag{Name: "kvstore", Value: "dist_sync", Usage: "local, dist_sync or dist_async; without a launcher a job of one worker"}
	return slices.Concat(imageFlags(), modelFlags(), trainingFlags(), []cli.Flag{store}, program.CheckpointFlags(), program.OutputFlags())
}

func fromFlags(c *cli.Context) settings {
	return settings{
		images:     imagesFrom(c),
		model:      modelFrom(c),
		training:   trainingFrom(c),
		store:      c.String("kvstore"),
		checkpoint: program.Checkpoints(c),
		output:     program.OutputFrom(c),
	}
}

// validate names the first flag that cannot be and that nobody else looks at before the work
// begins.
func (s *settings) validate() error {
	if s.checkpoint.Resume && s.checkpoint.Dir == "" {
		return fmt.Errorf("--resume needs --checkpoint-dir, the folder to resume from")
	}
	if err := s.images.validate(); err != nil {
		return err
	}
	if err := s.model.validate(); err != nil {
		return err
	}
	return s.training.validate()
}
