package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/worker"
)

// settings are what the flags ask for. Each group is declared, read and checked in a file of its
// own.
type settings struct {
	text       textSettings
	model      modelSettings
	adapt      adaptSettings
	training   trainingSettings
	store      storeSettings
	checkpoint worker.CheckpointConfig
	start      startSettings
	sample     sampleSettings
	output     program.Output

	// stop is closed by Ctrl-C: all workers end after the same step.
	stop <-chan struct{}

	// leave is closed by SIGTERM: this worker leaves the job, if that can go on without it.
	leave <-chan struct{}
}

func flags() []cli.Flag {
	return slices.Concat(textFlags(), modelFlags(), trainingFlags(), adaptFlags(), storeFlags(), program.CheckpointFlags(), startFlags(), sampleFlags(), program.OutputFlags())
}

func fromFlags(c *cli.Context) settings {
	return settings{
		text:       textFrom(c),
		model:      modelFrom(c),
		adapt:      adaptFrom(c),
		training:   trainingFrom(c),
		store:      storeFrom(c),
		checkpoint: program.Checkpoints(c),
		start:      startFrom(c),
		sample:     sampleFrom(c),
		output:     program.OutputFrom(c),
	}
}

// validate names the first flag that cannot be and that nobody else looks at before the work
// begins.
func (s *settings) validate() error {
	return cmp.Or(
		s.text.validate(),
		s.model.validate(),
		s.training.validate(),
		s.store.validate(),
		validateCheckpoints(s.checkpoint),
		s.sample.validate(),
		s.validateTogether(),
		s.validateAdapt(),
	)
}

// validateTogether names flags of several groups that do not go together. Those of --adapt are in
// validateAdapt.
func (s *settings) validateTogether() error {
	switch {
	case s.training.epochs == 0 && s.start.file == "":
		return errors.New("--epochs is 0 without --init-from, want at least 1 epoch, or the file of a model to sample from")
	case s.training.clip > 0 && (s.store.isAsynchronous() || s.store.localSteps > 0 || s.store.updateOnWorker):
		return errors.New("--clip with --kvstore dist_async, --local-steps or --update-on-worker, want none of them: no update there waits for all gradients")
	case s.training.earlyStop > 0 && s.store.isAsynchronous():
		return errors.New("--early-stop with --kvstore dist_async, want dist_sync: its workers have no step in common")
	}
	return nil
}

func validateCheckpoints(c worker.CheckpointConfig) error {
	switch {
	case c.Resume && c.Dir == "":
		return errors.New("--resume needs --checkpoint-dir, the folder to resume from")
	case c.ResumeStep > 0 && !c.Resume:
		return errors.New("--resume-step needs --resume")
	case c.EverySteps < 0:
		return fmt.Errorf("--checkpoint-steps is %d, want at least 1, or 0 for none", c.EverySteps)
	case c.Every < 0:
		return fmt.Errorf("--checkpoint-every is %v, want such as 10m, or 0 for none", c.Every)
	}
	return nil
}
