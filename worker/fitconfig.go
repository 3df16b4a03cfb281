package worker

import (
	"errors"
	"fmt"
)

// FitConfig configures Fit.
type FitConfig struct {
	Trainer *Trainer
	Feed    Feed
	// Evaluator; nil: no evaluation.
	Evaluator Evaluator
	// EvaluateSteps evaluates after every so many steps, besides the end of each epoch; with
	// Adapt, after so much progress. Running statistics are averaged over the workers each
	// time. 0: only at the end of epochs.
	EvaluateSteps int
	// Epochs is how many passes over the data there are in all, those before a resume included;
	// with Adapt, so much progress.
	Epochs int
	// Adapt lets the batch size change; nil: it stays as the Feed has it.
	Adapt *AdaptConfig
	// MaxSteps ends the run after so many steps in all; 0: no limit.
	MaxSteps uint64
	// EarlyStop ends the run when evaluations get no better; nil: never.
	EarlyStop *EarlyStop
	// EMA keeps a moving average of the parameters; nil: none.
	EMA *EMA
	// Checkpoint says where and when to save; the zero value: never.
	Checkpoint CheckpointConfig
	// Stop, when closed on any worker, ends the run of all of them after a coming step that
	// they agree on, with a checkpoint if there is a place for one: ErrStopped. nil: never.
	Stop <-chan struct{}
	// Leave, when closed, lets this worker alone leave an elastic job. It takes part up to the
	// step at which its departure takes effect, usually the next one; the rest of its share of
	// the epoch goes to the others, who go on, and its Fit returns ErrRemoved. Connect it to
	// SIGTERM, which a reclaimed machine, an evicted pod or a person sends to one process:
	// signal.NotifyContext(ctx, syscall.SIGTERM).Done(). Keep catching that signal: it may come
	// more than once.
	//
	// If the job cannot go on without this worker, Leave is like Stop: in a job that is not
	// elastic, if fewer than --min-workers would be left, if launch stops the whole job, and if
	// all workers are told to leave. While the scheduler is unreachable the request is
	// repeated. With a Feed that is no DividedFeed the worker leaves at the end of the epoch,
	// and without OnMembership Leave is like Stop. No worker leaves between steps (evaluation,
	// waiting for a checkpoint). nil: never.
	Leave <-chan struct{}
	// Observers are told of steps and epochs, in order.
	Observers []Observer
	// OnMembership is called on every member with its rank and the number of workers whenever
	// they changed, and on a worker that has joined, before the next step: the data-iterator
	// hook. A Feed that is no DividedFeed is set up anew by it. nil: nothing.
	OnMembership func(rank, workers int)
	// OnUsed is called on every worker with the examples that acknowledged steps have used,
	// part by part, at the end of each division: the same on all. Each example of an epoch
	// comes once. It needs a DividedFeed. nil: nothing.
	OnUsed func(Used)
}

// Validate names the first field that cannot be.
func (c *FitConfig) Validate() error {
	switch {
	case c.Trainer == nil:
		return errors.New("worker: FitConfig.Trainer is nil, want a trainer of NewTrainer")
	case c.Feed == nil:
		return errors.New("worker: FitConfig.Feed is nil, want a source of batches")
	case c.Epochs < 1:
		return fmt.Errorf("worker: FitConfig.Epochs is %d, want at least 1", c.Epochs)
	case c.EvaluateSteps < 0:
		return fmt.Errorf("worker: FitConfig.EvaluateSteps is %d, want at least 1, or 0 for the end of epochs alone", c.EvaluateSteps)
	case c.EvaluateSteps > 0 && c.Evaluator == nil:
		return fmt.Errorf("worker: FitConfig.EvaluateSteps is %d without an Evaluator, want one", c.EvaluateSteps)
	case c.EvaluateSteps > 0 && c.Trainer.async():
		return fmt.Errorf("worker: FitConfig.EvaluateSteps is %d with store dist_async, want 0: its workers have no steps in common", c.EvaluateSteps)
	case c.EvaluateSteps > 0 && c.Trainer.local != nil:
		return fmt.Errorf("worker: FitConfig.EvaluateSteps is %d with a store of %d local steps, want 0: the workers have different values between rounds", c.EvaluateSteps, c.Trainer.local.length)
	case c.Feed.Steps() < 1 && !joins(c.Trainer.cfg.Store):
		return errors.New("worker: FitConfig.Feed has no steps in an epoch, want at least 1: are there fewer examples than workers?")
	}
	if c.EarlyStop != nil {
		if err := c.EarlyStop.validate(c.Trainer, c.Evaluator); err != nil {
			return err
		}
	}
	if c.EMA != nil {
		if err := c.EMA.validate(c.Trainer, c.EarlyStop); err != nil {
			return err
		}
	}
	if c.Adapt != nil {
		if err := c.Adapt.validate(c.Trainer, c.Feed); err != nil {
			return err
		}
	}
	return c.Checkpoint.Validate()
}
