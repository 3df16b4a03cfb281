package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/trace"
)

// join makes a worker that joins a running job a member of it. When it returns, this worker is at
// the same step as the others.
func (r *run) join(ctx context.Context) error {
	early, ready := r.leave.untilReady(ctx)
	if err := r.makeKeys(early); err != nil {
		return err
	}
	if err := ready(); err != nil {
		return fmt.Errorf("worker: join: %w", err)
	}
	if err := r.members.elastic.Ready(ctx); err != nil {
		return fmt.Errorf("worker: join: %w", err)
	}
	if err := r.trainer.pullFresh(ctx); err != nil {
		return err
	}
	r.members.roll.Expect()
	division := r.members.elastic.Division()
	r.trainer.setSteps(division.Steps)
	if err := r.receive(ctx); err != nil {
		return err
	}
	if err := followOrder(r.cfg.Feed, division.Order, r.logger); err != nil {
		return err
	}
	r.division.join(seatIn(r.store), division)
	r.members.joined = true
	if division.Stop {
		r.stop = stopAsked
	}
	r.logger.Info("joined the training", "rank", r.division.seat.rank, "workers", r.division.seat.workers, "epoch", r.division.pass, "step", r.division.before, "steps", division.Steps,
		joblog.WorkersChanged.With())
	return nil
}

// pullFresh pulls all values on a worker that has just joined.
func (t *Trainer) pullFresh(ctx context.Context) error {
	t.newcomer = true
	for i, key := range t.keys {
		outs := t.exchange.outs[i]
		if err := t.cfg.Store.Pull(ctx, key, outs...); err != nil {
			return fmt.Errorf("worker: pull %s: %w", key, err)
		}
		if t.local != nil {
			copy(t.local.anchors[i], outs[0])
		}
	}
	for s, state := range t.cfg.Programs[0].State() {
		if err := t.cfg.Store.Pull(ctx, state.Name, t.devices.stateValues(s)...); err != nil {
			return fmt.Errorf("worker: pull %s: %w", state.Name, err)
		}
	}
	return t.pullFrozen(ctx)
}

// receive takes over what the others know and the servers do not hold: the state of adaptive
// training, in a new division, and the averages of weights.
func (r *run) receive(ctx context.Context) error {
	if r.cfg.Adapt != nil {
		state, err := tellAdaptation(ctx, r.store, nil)
		if err != nil {
			return err
		}
		state.Segments = nil
		if err := r.beginAdapting(ctx, state, true); err != nil {
			return err
		}
	}
	if a := r.evaluations.averages; a != nil {
		return a.hand(ctx, seatIn(r.store), true)
	}
	return nil
}

// changeBetweenEpochs makes pending changes where the feed cannot be divided in the middle of an
// epoch.
func (r *run) changeBetweenEpochs(ctx context.Context) error {
	for {
		changed, err := r.callRoll(ctx, &epochRun{from: time.Now()})
		if err != nil || !changed {
			return err
		}
	}
}

// callRoll finds out whether all workers have finished the last step and no change is pending. If
// one is, it makes the change; then all workers, also those that have just joined, begin with what
// is left of the epoch.
//
// The agreement of the last step has told of most changes already; its comment says when the roll is
// called besides.
func (r *run) callRoll(ctx context.Context, e *epochRun) (changed bool, err error) {
	if r.members.elastic == nil {
		return false, nil
	}
	if err := r.trainer.Flush(ctx); err != nil {
		return false, err
	}
	if changed, err = r.members.roll.Call(ctx); err != nil {
		return false, fmt.Errorf("worker: %v: %w", r.division, err)
	}
	if changed {
		err = r.boundary(ctx, e)
	}
	return changed, err
}

// boundary makes the pending change. All workers call it after the same step. When it returns they
// are members of the next generation, with the same division of what is left of the epoch.
//
// From the arrival on no call of the store may be under way: the servers change generations, and
// would count it in one of the two.
func (r *run) boundary(ctx context.Context, e *epochRun) error {
	defer r.trainer.trace.span(trace.Change)()
	if err := r.trainer.Sync(ctx); err != nil {
		return err
	}
	var begin time.Time
	if r.adapt != nil {
		r.epochs.measure(r.trainer.Steps())
		begin = r.adapt.now()
	}
	span := r.closeSpan(e)
	if err := r.saver.wasRead(); err != nil {
		return err
	}
	if err := r.arrive(ctx); err != nil {
		return err
	}
	if err := r.tellNewcomers(ctx); err != nil {
		return err
	}
	if err := r.takeDivision(span); err != nil {
		return err
	}
	if r.adapt != nil {
		r.adapt.wish.madeChange(r.adapt.now().Sub(begin))
	}
	return nil
}

// arrive tells the scheduler what this worker has used, and returns when the change is made.
func (r *run) arrive(ctx context.Context) error {
	d := r.division
	change, err := r.members.elastic.AwaitPending(ctx)
	if err != nil {
		return fmt.Errorf("worker: %v: %w", d, err)
	}
	arrival, err := d.arrival(change, r.trainer.Steps(), r.stop != goingOn)
	if err != nil {
		return err
	}
	err = r.members.elastic.Arrive(ctx, arrival)
	if errors.Is(err, ErrRemoved) {
		r.logger.Info("removed from the job: all steps of this worker count, the others go on", "rank", d.seat.rank, "epoch", d.pass, "step", d.stepOfPass(),
			joblog.WorkerRemoved.With())
	}
	if err != nil {
		return fmt.Errorf("worker: %v: %w", d, err)
	}
	return nil
}

// tellNewcomers gives those who have joined what receive takes over. Of adaptive training the
// worker of the lowest rank decides for all: this one's memory may hold other batches.
func (r *run) tellNewcomers(ctx context.Context) error {
	if r.adapt != nil {
		r.adapt.fitTo(r.store.NumWorkers())
		state, err := tellAdaptation(ctx, r.store, r.adapt.state(false))
		if err != nil {
			return err
		}
		r.adapt.batch = state.Batch
	}
	if a := r.evaluations.averages; a != nil {
		return a.hand(ctx, seatIn(r.store), false)
	}
	return nil
}

// takeDivision switches to this worker's share of the new division.
func (r *run) takeDivision(span Span) error {
	d, workers := r.division, r.division.seat.workers
	if err := d.take(r.members.elastic.Division(), r.trainer.Steps(), seatIn(r.store)); err != nil {
		return err
	}
	r.saver.schedule.byConfig()
	r.members.roll.Expect()
	if r.adapt != nil {
		r.adapt.beginBatch(r.trainer.Steps())
		r.adapt.workersChanged()
	}
	r.logChange(workers)
	if err := r.epochs.divide(); err != nil {
		return err
	}
	if r.cfg.OnMembership != nil {
		r.cfg.OnMembership(d.seat.rank, d.seat.workers)
	} else if d.divided == nil && d.seat.workers != workers {
		return fmt.Errorf("worker: epoch %d: the number of workers changed from %d to %d, and feed %T cannot share the examples anew: make it a worker.DividedFeed or set FitConfig.OnMembership", d.pass, workers, d.seat.workers, r.cfg.Feed)
	}
	r.observers.membership(MembershipInfo{Epoch: r.epochs.number(), Step: r.epochs.step(), Done: r.trainer.Steps(), Rank: d.seat.rank, Before: workers, Workers: d.seat.workers, Span: span})
	return nil
}

// logChange says how many workers there are now, where there were so many before.
func (r *run) logChange(before int) {
	d := r.division
	if d.seat.workers != before {
		r.logger.Info(fmt.Sprintf("Resetting data iterator as worker count changed from %d to %d", before, d.seat.workers), "rank", d.seat.rank, "epoch", d.pass, "step", d.before,
			joblog.WorkersChanged.With("workers", d.seat.workers))
		return
	}
	r.logger.Info("workers were replaced; their number is the same", "workers", before, "rank", d.seat.rank, "epoch", d.pass, "step", d.before,
		joblog.WorkersChanged.With())
}
