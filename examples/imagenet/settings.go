package main

import (
	"cmp"
	"errors"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/worker"
)

// settings are what the flags ask for. The larger groups are declared, read and checked in files of
// their own.
type settings struct {
	images   imageSettings
	augment  augmentSettings
	model    modelSettings
	training trainingSettings

	// store is dist_sync or dist_async.
	store string

	checkpoint worker.CheckpointConfig
	start      startSettings
	output     program.Output

	// stop is closed by Ctrl-C: all workers end after the same step.
	stop <-chan struct{}

	// leave is closed by SIGTERM: this worker leaves the job, if that can go on without it.
	leave <-chan struct{}
}

// startSettings say which model a run starts with, and what of it stays as it is.
type startSettings struct {
	// file has the model; none: the network starts with random values. importing says how its
	// tensors become the network's.
	file      string
	importing checkpoint.ImportConfig

	// freeze are the names that are not trained.
	freeze []string
}

func flags() []cli.Flag {
	return slices.Concat(imageFlags(), augmentFlags(), modelFlags(), trainingFlags(), storeFlags(), program.CheckpointFlags(), startFlags(), program.OutputFlags())
}

func storeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "kvstore", Value: "dist_sync", Usage: "dist_sync or dist_async; without a launcher a job of one worker"},
	}
}

func startFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "init-from", Usage: "start with the model in a file: a PyTorch state dict (.safetensors), or a checkpoint"},
		&cli.StringSliceFlag{Name: "init-skip", Usage: "with --init-from: names of the model that keep their first values, such as 'fc.*'"},
		&cli.StringSliceFlag{Name: "freeze", Usage: "names that are not trained, such as 'layer1.*'; '*' with '!fc.*' is all but fc"},
	}
}

func fromFlags(c *cli.Context) settings {
	return settings{
		images:     imagesFrom(c),
		augment:    augmentFrom(c),
		model:      modelFrom(c),
		training:   trainingFrom(c),
		store:      c.String("kvstore"),
		checkpoint: program.Checkpoints(c),
		start: startSettings{
			file:      c.String("init-from"),
			importing: checkpoint.ImportConfig{Skip: c.StringSlice("init-skip")},
			freeze:    c.StringSlice("freeze"),
		},
		output: program.OutputFrom(c),
	}
}

// validate names the first flag that cannot be and that nobody else looks at before the work
// begins.
func (s *settings) validate() error {
	return cmp.Or(s.images.validate(), s.augment.validate(), s.model.validate(), s.validateTraining(), s.validateStart())
}

func (s *settings) validateTraining() error {
	if err := s.training.validate(); err != nil {
		return err
	}
	_, err := s.update(1, 1)
	return err
}

func (s *settings) validateStart() error {
	switch {
	case s.checkpoint.Resume && s.checkpoint.Dir == "":
		return errors.New("--resume needs --checkpoint-dir, the folder to resume from")
	case s.start.file == "" && len(s.start.importing.Skip) > 0:
		return errors.New("--init-skip needs --init-from, the file of the model")
	}
	return nil
}
