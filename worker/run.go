package worker

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/paragon-train/paragon/internal/member/rollcall"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/metrics"
)

// run is one call of Fit. It owns the parts below, each of which knows only its own state, and
// brings what one of them decides to the others.
//
// Invariant: all workers of a job do the same calls of the store in the same order between two
// steps. So what run decides follows from a verdict, from a roll call, from the configuration or
// from numbers that are the same on all workers; never from a clock or from what this worker alone
// has seen.
type run struct {
	cfg     FitConfig
	trainer *Trainer
	store   kvstore.Store
	logger  *slog.Logger

	division    *division
	epochs      epochs
	agreement   *agreement
	members     members
	leave       leaveRequest
	folder      *checkpointFolder
	saver       *saver
	evaluations evaluations
	ahead       *prefetch
	bad         badTally
	clock       stepClock
	observers   observers
	// adapt is nil where the batch stays as it is, and a pass is an epoch.
	adapt *adaptation

	// data is what the feed reads.
	data DataInfo
	// owed is what a run that was stopped has left to this one, until it is done.
	owed unfinished
	// stop is what all have agreed on after the last step.
	stop stopKind
	// diverged says that a loss was not finite, which the log has said.
	diverged bool
	// done are the epochs that are.
	done []EpochInfo
}

// unfinished is what comes before the next step of a run that was stopped.
type unfinished struct {
	// loss is this worker's in the epoch so far.
	loss metrics.Mean
	// evaluate asks for an evaluation within the epoch, and endEpoch for the end of the epoch.
	evaluate, endEpoch bool
}

// finished reports whether the limit of steps is reached, or the run ends early.
func (r *run) finished() bool {
	return r.cfg.MaxSteps > 0 && r.trainer.Steps() >= r.cfg.MaxSteps || r.evaluations.stopped()
}

// settle waits for the exchange of the last step, and adds what was measured of it.
func (r *run) settle(ctx context.Context) error {
	if err := r.trainer.Flush(ctx); err != nil {
		return err
	}
	r.epochs.measure(r.trainer.Steps())
	return nil
}

// position is where the run is.
func (r *run) position() position {
	d := r.division
	at := position{Epoch: d.pass, Step: d.step, Steps: r.trainer.Steps(), Cuts: d.cuts, Order: orderOf(r.cfg.Feed), Bad: r.bad.count(), workers: d.seat.workers, stepsOfDivision: r.cfg.Feed.Steps()}
	if r.adapt != nil {
		at.Adapt = r.adapt.state(r.adapt.epochDone())
	}
	if early := r.evaluations.early; early != nil && early.state.Known {
		state := early.state
		at.Early = &state
	}
	return at
}

// closeSpan ends the current span.
func (r *run) closeSpan(e *epochRun) Span { return e.closeSpan(r.epochs.span(), r.adapt != nil) }

// makeKeys makes the runtime's keys, by which workers tell each other what they know. A worker that
// joins has them before it is ready.
func (r *run) makeKeys(ctx context.Context) (err error) {
	if r.agreement, err = newAgreement(ctx, r.store, r.trainer.async(), r.store.StopRequested()); err != nil {
		return err
	}
	v := &r.evaluations
	if e, ok := r.cfg.Evaluator.(DividedEvaluator); ok && !r.trainer.async() {
		if v.tally, err = newTally(ctx, r.store, "evaluated", e.Sums()); err != nil {
			return err
		}
	}
	if r.cfg.EarlyStop != nil {
		if v.early, err = newEarlyStop(ctx, *r.cfg.EarlyStop, r.store, r.logger); err != nil {
			return err
		}
	}
	if r.members.elastic == nil {
		return nil
	}
	if v.averages != nil {
		if err := v.averages.begin(ctx, r.store); err != nil {
			return err
		}
	}
	if r.members.roll, err = rollcall.New(ctx, r.store); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}
