package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/member/rollcall"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/sampler"
)

// past is the position in the epoch at which a resumed run began. The scheduler learns of it at the
// first change; from then on it is part of the division.
type past struct {
	cuts []sampler.Cut // of the epoch
	used []int         // by part of the division: examples used; empty: none
}

// of returns how many examples a part had used.
func (p *past) of(part int) int {
	if part < len(p.used) {
		return p.used[part]
	}
	return 0
}

// join makes a worker that joins a running job a member of it. When it returns, this worker is at
// the same step as the others.
func (r *run) join(ctx context.Context) (err error) {
	early, ready := r.leave.untilReady(ctx)
	if r.stop, err = newAgreement(early, r.trainer); err != nil {
		return err
	}
	if err := r.beginTally(early); err != nil {
		return err
	}
	if err := r.beginEarlyStop(early); err != nil {
		return err
	}
	if err := r.beginAverages(early); err != nil {
		return err
	}
	if err := r.beginRoll(early); err != nil {
		return err
	}
	if err := ready(); err != nil {
		return fmt.Errorf("worker: join: %w", err)
	}
	if err := r.elastic.Ready(ctx); err != nil {
		return fmt.Errorf("worker: join: %w", err)
	}
	if err := r.trainer.pullFresh(ctx); err != nil {
		return err
	}
	r.roll.Expect()
	division := r.elastic.Division()
	r.trainer.setSteps(division.Steps)
	if r.cfg.Adapt != nil {
		state, err := r.tellAdaptation(ctx, nil)
		if err != nil {
			return err
		}
		state.Segments = nil // a new division
		if err := r.beginAdapting(ctx, state, true); err != nil {
			return err
		}
	}
	if err := r.handAverages(ctx, true); err != nil {
		return err
	}
	if err := r.follow(division.Order); err != nil {
		return err
	}
	r.rank, r.workers = r.trainer.cfg.Store.Rank(), r.trainer.cfg.Store.NumWorkers()
	r.epoch, r.before, r.stopping, r.cuts = int(division.Epoch), int(division.Step), division.Stop, division.Cuts
	r.joined, r.stale = true, true
	r.trainer.cfg.Logger.Info("joined the training", "rank", r.rank, "workers", r.workers, "epoch", r.epoch, "step", r.before, "steps", division.Steps,
		joblog.WorkersChanged.With())
	return nil
}

// beginRoll makes this worker take part in the roll calls.
func (r *run) beginRoll(ctx context.Context) (err error) {
	if r.roll, err = rollcall.New(ctx, r.trainer.cfg.Store); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// divide gives the feed the new division, if there is one.
func (r *run) divide() error {
	if !r.stale || r.divided == nil {
		r.stale = false
		return nil
	}
	r.stale = false
	if err := r.divided.Divided(r.rank, r.workers, r.cuts); err != nil {
		return fmt.Errorf("worker: epoch %d: divide what is left over %d workers: %w", r.epoch, r.workers, err)
	}
	return r.cutSegments()
}

// nextEpoch moves on to the next epoch.
func (r *run) nextEpoch() {
	if r.adapt == nil {
		r.nextPass()
		return
	}
	r.adapt.nextEpoch()
	if r.over() {
		r.nextPass()
	}
}

// nextPass moves on to the start of the next pass over the data.
func (r *run) nextPass() {
	if r.divided != nil && r.elastic != nil {
		if r.earlier == nil {
			r.earlier = make([]uint64, r.workers)
		}
		for part := range r.earlier {
			r.earlier[part] += uint64(r.divided.Used(part, r.step) - r.past.of(part))
		}
	}
	r.stale = r.stale || len(r.cuts) > 0 || r.adapt != nil
	r.epoch, r.step, r.before, r.used, r.cuts, r.past = r.epoch+1, 0, 0, 0, nil, past{}
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

// callRoll finds out, after a step, whether all workers have finished it and no change is pending.
// If one is, it makes the change; then all workers, also those that have just joined, begin with
// what is left of the epoch.
func (r *run) callRoll(ctx context.Context, e *epochRun) (changed bool, err error) {
	if r.elastic == nil {
		return false, nil
	}
	if err := r.trainer.Flush(ctx); err != nil {
		return false, err
	}
	if changed, err = r.roll.Call(ctx); err != nil {
		return false, fmt.Errorf("worker: epoch %d step %d: %w", r.epoch, r.before+r.step, err)
	}
	if changed {
		err = r.boundary(ctx, e)
	}
	return changed, err
}

// boundary makes the pending change. All workers call it after the same step. When it returns they
// are members of the next generation, with the same division of what is left of the epoch.
func (r *run) boundary(ctx context.Context, e *epochRun) (err error) {
	defer r.trainer.trace.span(trace.Change)()
	if err := r.trainer.Sync(ctx); err != nil {
		return err
	}
	if r.adapt != nil {
		r.adapt.measure()
		d := &r.adapt.decider
		begin := d.now()
		defer func() {
			if err == nil {
				d.changes++
				d.changing += d.now().Sub(begin)
			}
		}()
	}
	span := r.closeSpan(e)
	if err := r.saver.wasRead(); err != nil {
		return err
	}
	change, err := r.elastic.AwaitPending(ctx)
	if err != nil {
		return fmt.Errorf("worker: epoch %d step %d: %w", r.epoch, r.before+r.step, err)
	}
	arrival := kvstore.Arrival{Change: change, Steps: r.trainer.Steps(), Epoch: uint64(r.epoch), Step: uint64(r.before + r.step), Stop: r.stopping,
		Earlier: r.earlier, Cuts: r.past.cuts, Order: orderOf(r.cfg.Feed)}
	if r.divided != nil {
		if want := r.divided.Used(r.rank, r.step); r.used != want {
			return fmt.Errorf("worker: epoch %d step %d: feed %T returned %d examples in %d steps of the division, and its Used says %d", r.epoch, r.before+r.step, r.cfg.Feed, r.used, r.step, want)
		}
		arrival.Used = uint64(r.used)
		for part := range r.past.used {
			arrival.Resumed = append(arrival.Resumed, uint64(r.past.used[part]))
		}
	}
	err = r.elastic.Arrive(ctx, arrival)
	if errors.Is(err, ErrRemoved) {
		r.trainer.cfg.Logger.Info("removed from the job: all steps of this worker count, the others go on", "rank", r.rank, "epoch", r.epoch, "step", r.before+r.step,
			joblog.WorkerRemoved.With())
	}
	if err != nil {
		return fmt.Errorf("worker: epoch %d step %d: %w", r.epoch, r.before+r.step, err)
	}
	if r.adapt != nil {
		r.adapt.fitTo(r.trainer.cfg.Store.NumWorkers())
		state, err := r.tellAdaptation(ctx, r.adapt.state(false))
		if err != nil {
			return err
		}
		r.adapt.batch = state.Batch // this worker's memory may hold other batches than that of the lowest rank
	}
	if err := r.handAverages(ctx, false); err != nil {
		return err
	}
	return r.take(span)
}

// take switches to this worker's share of the new division.
func (r *run) take(span Span) error {
	division := r.elastic.Division()
	if division.Epoch != uint64(r.epoch) || division.Steps != r.trainer.Steps() {
		return fmt.Errorf("worker: epoch %d after %d steps: the new division is of epoch %d after %d steps, want the same", r.epoch, r.trainer.Steps(), division.Epoch, division.Steps)
	}
	if own := orderOf(r.cfg.Feed); division.Order != own {
		return fmt.Errorf("worker: epoch %d after %d steps: the order of this worker's examples is %q, and that of the job %q, want the same on all workers", r.epoch, r.trainer.Steps(), own, division.Order)
	}
	workers := r.workers
	if r.divided != nil {
		if err := r.cut(division.Cuts); err != nil {
			return err
		}
	}
	r.past, r.earlier = past{}, nil
	r.saver.membersChanged()
	r.roll.Expect()
	r.rank, r.workers = r.trainer.cfg.Store.Rank(), r.trainer.cfg.Store.NumWorkers()
	if r.adapt != nil {
		r.adapt.beginBatch()
		r.adapt.decider.workersChanged()
	}
	logger := r.trainer.cfg.Logger
	if r.workers != workers {
		logger.Info(fmt.Sprintf("Resetting data iterator as worker count changed from %d to %d", workers, r.workers), "rank", r.rank, "epoch", r.epoch, "step", r.before,
			joblog.WorkersChanged.With("workers", r.workers))
	} else {
		logger.Info("workers were replaced; their number is the same", "workers", workers, "rank", r.rank, "epoch", r.epoch, "step", r.before,
			joblog.WorkersChanged.With())
	}
	if err := r.divide(); err != nil {
		return err
	}
	if r.cfg.OnMembership != nil {
		r.cfg.OnMembership(r.rank, r.workers)
	} else if r.divided == nil && r.workers != workers {
		return fmt.Errorf("worker: epoch %d: the number of workers changed from %d to %d, and feed %T cannot share the examples anew: make it a worker.DividedFeed or set FitConfig.OnMembership", r.epoch, workers, r.workers, r.cfg.Feed)
	}
	info := MembershipInfo{Epoch: r.numEpoch(), Step: r.stepOfEpoch(), Done: r.trainer.Steps(), Rank: r.rank, Before: workers, Workers: r.workers, Span: span}
	for _, o := range r.cfg.Observers {
		if o, ok := o.(MembershipObserver); ok {
			o.Membership(info)
		}
	}
	return nil
}

// cut ends the current division: cuts are those of the epoch from now on.
func (r *run) cut(cuts []sampler.Cut) error {
	switch {
	case len(cuts) == len(r.cuts) && r.used == 0: // no example of the division was used: no cut
	case len(cuts) != len(r.cuts)+1 || cuts[len(r.cuts)].Parts != r.workers:
		return fmt.Errorf("worker: epoch %d step %d: the new division has the cuts %v, want one of %d parts after %v", r.epoch, r.before+r.step, cuts, r.workers, r.cuts)
	default:
		cut := cuts[len(r.cuts)]
		r.tellUsed(r.cuts, r.workers, func(part int) int { return cut.Used[part] })
	}
	r.before, r.step, r.used, r.cuts, r.stale = r.before+r.step, 0, 0, cuts, true
	return nil
}

// tellUsed passes to OnUsed the examples that the steps of a division have used in this job.
func (r *run) tellUsed(cuts []sampler.Cut, workers int, used func(part int) int) {
	if r.cfg.OnUsed == nil || r.divided == nil {
		return
	}
	for part := range workers {
		examples := r.divided.Examples(r.epoch, part, used(part))
		examples = examples[min(r.past.of(part), len(examples)):]
		r.cfg.OnUsed(Used{Epoch: r.epoch, Division: len(cuts), Part: part, Examples: examples})
	}
}
