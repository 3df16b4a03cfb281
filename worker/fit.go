package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/metrics"
)

// A Feed brings the batches of one worker to its programs' inputs. One that is a DividedFeed, too,
// lets workers come and go in the middle of an epoch; with another one a change waits for the end
// of the epoch. One that is an AheadFeed is asked for the next batch while a step computes.
type Feed interface {
	// Steps is the number of steps of an epoch: the same on every worker, so that all take part
	// in every round.
	Steps() int
	// Begin starts epoch e at the given step; the order of examples depends on (seed, epoch)
	// alone, so that a resumed run reads what the first one would have.
	Begin(ctx context.Context, epoch, step int) error
	// Next fills the inputs for the next step and returns how many examples count on each
	// device.
	Next(ctx context.Context) (counts []int, err error)
	Close() error
}

// A BadExampleFeed is a Feed that leaves damaged examples out of the losses, within a budget of the
// whole job: Fit adds up what all workers have left out in a pass over the data, logs each by name,
// and ends on all workers with a *BadBudgetError when it is more than the budget.
type BadExampleFeed interface {
	Feed
	// BadBudget is how many examples of a pass may be left out: the same on all workers.
	BadBudget() int
	// TakeBad returns those of the batches that Next has brought since the last call, and is
	// called like Next.
	TakeBad() []*data.BadExampleError
}

// A DescribedFeed is a Feed that says which data it reads. Checkpoints keep that, and a run does
// not go on from one with other data.
type DescribedFeed interface {
	Feed
	Data() DataInfo
}

// An Evaluator measures the model; Fit calls it after each epoch, and within one by EvaluateSteps,
// with all values in place. One that is a DividedEvaluator, as those of this package are, is
// divided among the workers; another one evaluates all on each.
type Evaluator interface {
	Evaluate(ctx context.Context) (Scores, error)
}

// Scores of an evaluation.
type Scores struct {
	Loss     float64            // mean over the examples
	Accuracy float64            // share of examples whose highest logit is their label; NaN where there are no labels
	Examples int                // that count
	Bad      int                // that are damaged and were left out
	Metrics  []metrics.Measured // others, in the order of the evaluator's Metrics
}

// Get is the score of a name: "loss", "accuracy", or that of a metric.
func (s *Scores) Get(name string) (value float64, ok bool) {
	switch name {
	case "loss":
		return s.Loss, true
	case "accuracy":
		return s.Accuracy, true
	}
	for _, m := range s.Metrics {
		if m.Name == name {
			return m.Value, true
		}
	}
	return math.NaN(), false
}

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

// An Observer follows a run. Its methods are called by Fit's goroutine and hold the training up.
type Observer interface {
	Begin(run Run)
	Step(step StepInfo)
	Epoch(epoch EpochInfo)
	End() // Fit returns, whether all went well or not; only after Begin
}

// A MembershipObserver is an Observer that is told when workers came or went.
type MembershipObserver interface {
	Observer
	Membership(change MembershipInfo)
}

// An EvaluationObserver is an Observer that is told of evaluations within an epoch
// (FitConfig.EvaluateSteps).
type EvaluationObserver interface {
	Observer
	Evaluated(epoch int, e Evaluation)
}

// An Evaluation is one within an epoch.
type Evaluation struct {
	Step   int           // of the epoch, the next one
	Done   uint64        // steps since the job began
	Train  time.Duration // of the epoch in this run, without evaluations
	Scores Scores
	Time   time.Duration // that it took
}

// MembershipInfo tells about one change of the membership, on a worker that was a member before.
type MembershipInfo struct {
	Epoch, Step int    // the step to come, within the epoch
	Done        uint64 // steps since the job began
	Rank        int    // of this worker from now on
	Before      int    // workers before
	Workers     int    // workers from now on
	Span        Span   // the steps since the change before, or since the epoch began
}

// Used says which examples the steps of a division have used.
type Used struct {
	Epoch    int // pass over the data
	Division int // of the epoch, from 0: how many times it had been divided anew
	Part     int // rank of the worker in that division
	Examples []int
}

// Run describes a run at its start.
type Run struct {
	Rank, Workers         int
	Epochs, StepsPerEpoch int
	FirstEpoch, FirstStep int            // where it begins: 0, 0 unless resumed or joined
	Done                  uint64         // steps since the job began, before this run
	ResumedFrom           string         // folder of the checkpoint; empty: a new run
	Joined                bool           // this worker came to a job that runs
	Node                  kvstore.NodeID // of this worker in an elastic job; else 0
	Adapt                 *AdaptInfo     // nil without FitConfig.Adapt
	Data                  DataInfo       // that the feed reads; the zero value: it does not say
}

// StepInfo tells about one step of this worker.
type StepInfo struct {
	Epoch, Step int     // from 0; Step within the epoch
	Steps       int     // of the epoch, as far as is known: it changes when workers come or go
	Loss        float64 // mean over this worker's examples of the step
	Done        uint64  // steps since the job began, this one included
	Examples    int     // of this worker
	Batch       int     // the global batch: examples of all workers; of this one with dist_async; 0: the Feed is no DividedFeed and does not tell
	Workers     int

	// Took is the time since the step before was told of, Times where it went. So the wait for
	// the step's own values and a checkpoint behind it are the next step's. Evaluation and
	// changes of the membership are no part of it.
	Took  time.Duration
	Times Times
	// LearningRate is what Config.Optimizer and AdaptConfig.Rule give the step, before the
	// factors of single keys; of the first group with AdaptConfig.Groups. It does not know of
	// Store.SetLearningRate. NaN: not known; the schedules of dist_async go by the updates of
	// all workers.
	LearningRate float64
	// GradientNorm is the norm of the mean gradient of all workers in the step before, if the
	// servers have measured it: one step in 16, or with FitConfig.Adapt all. NaN: they have
	// not, as with one worker and one run a step, Adam's family, local steps or dist_async.
	GradientNorm float64
	// Staleness is how many updates of other workers the values that came since the step before
	// have missed, on average. NaN: none came, or the store is synchronous.
	Staleness float64
}

// A Span is a run of steps of one epoch with the same workers and, with FitConfig.Adapt, the same
// global batch.
type Span struct {
	Epoch, First int // the epoch, and its first step
	Workers      int
	Batch        int // with FitConfig.Adapt, that of a full step; else 0
	Steps        int
	Examples     int // of this worker
	Train        time.Duration
}

// goesOn reports whether next has the same workers and batch.
func (s Span) goesOn(next Span) bool { return s.Workers == next.Workers && s.Batch == next.Batch }

// StepsPerSecond is the speed of the span.
func (s Span) StepsPerSecond() float64 { return float64(s.Steps) / max(s.Train.Seconds(), 1e-9) }

// EpochInfo tells about one epoch of this worker.
type EpochInfo struct {
	Epoch    int
	First    int       // step with which this run began the epoch: 0 unless resumed or joined
	Done     uint64    // steps since the job began, those of the epoch included
	Loss     float64   // mean over this worker's examples of the epoch, also of those before a resume by as many workers
	Losses   []float64 // of each step from First on
	Examples int       // of this worker, in this run
	Train    time.Duration
	Times    Times // of the training part
	// Spans of the epoch: more than one if workers came or went in it.
	Spans []Span
	// Staleness of the values it trained on; nil with a synchronous store.
	Staleness *Staleness
	// Caught is how many of this worker's contributions to shards of the parameters the
	// servers' guard (kvstore.WithGuard) has refused or clipped in the epoch, as far as they
	// have told.
	Caught  uint64
	Adapt   *AdaptInfo // at the epoch's end; nil without FitConfig.Adapt
	Batches []int      // with FitConfig.Adapt, the examples of all workers in each step from First on
	// Bad is how many damaged examples all workers have left out of the pass over the data up
	// to the epoch's end. See BadExampleFeed.
	Bad      int
	Test     *Scores // nil: not evaluated
	TestTime time.Duration
	// Evaluations within the epoch, besides Test: see FitConfig.EvaluateSteps. Their time is
	// not in Train.
	Evaluations []Evaluation
}

// ErrStopped ends Fit when it was asked to stop; a checkpoint, if there is a place for one, has
// been written.
var ErrStopped = errors.New("worker: stopped on request")

// ErrCheckpointed is ErrStopped of a job that was asked to stop with a checkpoint so that it goes
// on later (see kvstore.Stopper), where the checkpoint is complete. Close the store and exit with
// code 0.
var ErrCheckpointed = fmt.Errorf("%w, with a checkpoint to resume from", ErrStopped)

// ErrRemoved ends Fit when this worker has left the job, as the job asked it to or by
// FitConfig.Leave: all its steps count, and the others go on. Close the store and exit with code 0.
var ErrRemoved = kvstore.ErrRemoved

// Fit trains for the epochs of cfg, and resumes first if cfg says so. It returns what each epoch
// brought. All workers of the job call it with like configurations.
//
// In a job whose workers may change (kvstore.Elastic; stores dist_sync and dist_device_sync) all
// agree in each step whether there is a change to make. After that step each waits for its own
// exchange and reports to the scheduler which examples it has used. Then ranks and the number of
// workers are new, what remains of the epoch is divided over them, and training goes on. Each
// example of an epoch is used exactly once by steps that count, also if workers are lost: the
// examples of a lost worker's last step are used again unless all servers had got it. A worker that
// joins gets all values and begins at the step of the others (if the job finishes before, there are
// no epochs and no error). One that leaves gets ErrRemoved. What rank 0 does (checkpoints) moves to
// the new rank 0.
//
// In a job that launch --restarts has started again, Fit goes on from the newest whole checkpoint
// of the same run, whatever Checkpoint.Resume says.
//
// An error that no restart can mend has kvstore.ErrFinal in its chain, and launch knows of it: a
// field of cfg, a folder with checkpoints of another run, and one to resume from that is damaged or
// not of this model.
func Fit(ctx context.Context, cfg FitConfig) ([]EpochInfo, error) {
	epochs, err := fit(ctx, cfg)
	if errors.Is(err, kvstore.ErrFinal) {
		err = kvstore.Final(err)
	}
	return epochs, err
}

// fit is Fit without telling launch of an error.
func fit(ctx context.Context, cfg FitConfig) ([]EpochInfo, error) {
	if err := cfg.Validate(); err != nil {
		return nil, exitreport.Final(exitreport.Usage, err)
	}
	if cfg.Trainer.fitted {
		return nil, exitreport.Final(exitreport.Usage, errors.New("worker: fit: the trainer has been through Fit before, want a new store and trainer for each run"))
	}
	cfg.Trainer.fitted = true
	r := newRun(cfg)
	defer r.folder.close()
	defer r.saver.close()
	defer cfg.Trainer.recordGPUs()()
	if cfg.Leave != nil {
		defer r.leave.watch(ctx, cfg.Leave, r.members.askLeave(r.division.divided != nil || cfg.OnMembership != nil), r.logger)()
	}
	err := r.begin(ctx)
	if errors.Is(err, kvstore.ErrFinished) {
		r.logger.Info("the job finished before this worker had joined")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.end()
	if err := r.train(ctx); err != nil {
		return r.done, err
	}
	return r.done, r.complete(ctx)
}
