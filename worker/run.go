package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/paragon-train/paragon/internal/member/rollcall"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/sampler"
)

// run is one call of Fit.
type run struct {
	cfg     FitConfig
	trainer *Trainer
	stop    *agreement
	leave   leaveRequest
	saver   *saver
	early   *earlyStop // nil: the run ends as configured
	tally   *tally     // nil: evaluations are not divided
	// haveAverages tells who has the averages of weights; nil: there are none, or nobody joins.
	haveAverages *tally
	elastic      kvstore.Elastic // nil: workers neither come nor go
	roll         *rollcall.Roll  // nil: likewise, or before begin
	divided      DividedFeed     // nil: the feed is not one
	adapt        *adaptation     // nil: the batch stays as it is, and a pass is an epoch
	ahead        *prefetch

	rank, workers int           // of the division
	cuts          []sampler.Cut // of the pass
	epoch, step   int           // the pass over the data and the next step, from the start of the division
	before        int           // steps of the pass before the division, as far as this worker knows
	segments      []Segment     // of the division, of a run that resumes in its middle
	used          int           // examples of this worker's share of the division that its steps used
	stale         bool          // the feed is to be divided before it begins
	joined        bool          // this worker came to a running job
	stopping      bool          // all were asked to stop
	diverged      bool          // a loss was not finite, which the log has said
	past          past
	global        int // examples of the step under way on all workers; 0: not known
	clock         stepClock
	bad           badTally
	earlier       []uint64 // by part: examples used since the division was made, in epochs before this one; nil: none

	// Of a run that resumes where it was stopped, until it has gone on.
	lossSoFar                  metrics.Mean // of the epoch
	mustEvaluate, mustEndEpoch bool         // as position says

	epochs []EpochInfo
}

func newRun(cfg FitConfig) *run {
	r := &run{cfg: cfg, trainer: cfg.Trainer, elastic: elasticOf(cfg.Trainer.cfg.Store), saver: newSaver(cfg.Checkpoint, cfg.Trainer), ahead: newPrefetch(cfg.Feed)}
	r.divided, _ = cfg.Feed.(DividedFeed)
	r.bad = newBadTally(cfg.Feed, cfg.Trainer)
	r.saver.data = dataOf(cfg.Feed)
	return r
}

func (r *run) begin(ctx context.Context) error {
	if err := r.saver.open(ctx); err != nil {
		return err
	}
	r.trainer.cfg.Store.ReportCheckpointFolder(r.cfg.Checkpoint.Dir != "")
	if r.cfg.EMA != nil {
		r.trainer.averages = newAverages(*r.cfg.EMA, r.trainer)
	}
	var from string
	var err error
	if r.elastic != nil && r.elastic.Joining() {
		err = r.join(ctx)
	} else {
		from, err = r.start(ctx)
	}
	if err != nil && r.leave.may.Load() && !errors.Is(err, ErrRemoved) { // the scheduler has removed it, so every request is refused
		err = fmt.Errorf("worker: join: %w (%w)", ErrRemoved, err)
	}
	if err != nil {
		return err
	}
	r.stop.told = &r.leave.told
	if r.elastic != nil {
		r.stop.pending = func() bool { return r.divided != nil && r.elastic.Pending() != 0 }
		r.trainer.contribution.counting = r.divided != nil
	}
	r.saver.anyFailed = r.stop.anyFailed
	r.stop.lanes = func(flags []float32) {
		r.saver.lanes(flags)
		r.bad.lanes(flags, r.rank)
		if r.adapt != nil {
			r.adapt.decider.lanes(flags)
		}
	}
	if err := r.divide(); err != nil {
		return err
	}
	if r.joined && r.cfg.OnMembership != nil {
		r.cfg.OnMembership(r.rank, r.workers)
	}
	info := Run{
		Rank: r.rank, Workers: r.workers, Epochs: r.cfg.Epochs, StepsPerEpoch: r.stepsOfEpoch(),
		FirstEpoch: r.numEpoch(), FirstStep: r.stepOfEpoch(), Done: r.trainer.Steps(), ResumedFrom: from, Joined: r.joined, Data: r.saver.data,
	}
	if r.elastic != nil {
		info.Node = r.elastic.NodeID()
	}
	if r.adapt != nil {
		i := r.adapt.info(r.workers)
		info.Adapt = &i
	}
	for _, o := range r.cfg.Observers {
		o.Begin(info)
	}
	return nil
}

// start begins a run with all workers of the job, or resumes one.
func (r *run) start(ctx context.Context) (from string, err error) {
	store := r.trainer.cfg.Store
	r.rank, r.workers = store.Rank(), store.NumWorkers()
	resumed, err := r.saver.resume(ctx, r.cfg.Feed, r.cfg.Adapt != nil)
	if err != nil {
		return "", err
	}
	r.saver.takeOver(ctx)
	at := resumed.at
	r.epoch, r.step, r.cuts, r.past, r.stale = at.Epoch, at.Step, at.Cuts, resumed.past, resumed.from != ""
	r.lossSoFar, r.mustEvaluate, r.mustEndEpoch = resumed.loss, at.Evaluate, at.EndEpoch
	r.bad.begin(at.Epoch, at.Bad)
	if r.cfg.Adapt != nil {
		if err := r.beginAdapting(ctx, at.Adapt, false); err != nil {
			return "", err
		}
	}
	if r.stop, err = newAgreement(ctx, r.trainer); err != nil {
		return "", err
	}
	if err := r.beginTally(ctx); err != nil {
		return "", err
	}
	if err := r.beginEarlyStop(ctx); err != nil {
		return "", err
	}
	if err := r.beginAverages(ctx); err != nil {
		return "", err
	}
	if r.early != nil && at.Early != nil {
		r.early.state = *at.Early
		r.early.check()
	}
	if r.elastic != nil {
		if err := r.beginRoll(ctx); err != nil {
			return "", err
		}
	}
	if err := r.divide(); err != nil {
		return "", err
	}
	if r.divided != nil {
		r.used = r.divided.Used(r.rank, r.step)
	}
	return resumed.from, nil
}

func (r *run) end() {
	r.stop.close()
	r.trainer.contribution.counting = false
	if r.adapt != nil {
		if err := r.adapt.end(); err != nil {
			r.trainer.cfg.Logger.Error("adaptive training: programs could not be closed", "error", err)
		}
	}
	for _, o := range r.cfg.Observers {
		o.End()
	}
}

// finished reports whether the limit of steps is reached, or the run ends early.
func (r *run) finished() bool {
	return r.cfg.MaxSteps > 0 && r.trainer.Steps() >= r.cfg.MaxSteps || r.early != nil && r.early.stopped
}

// over reports whether all steps of the division are done.
func (r *run) over() bool { return r.step >= r.cfg.Feed.Steps() }

// An epochRun collects the statistics of the current epoch.
type epochRun struct {
	info EpochInfo
	mean metrics.Mean
	span Span
	from time.Time // of the span

	begin      time.Time     // in this run
	evaluating time.Duration // within the epoch
}

// runEpoch trains what is left of the epoch, averages the running statistics, evaluates and saves.
func (r *run) runEpoch(ctx context.Context) error {
	e := &epochRun{info: EpochInfo{Epoch: r.numEpoch(), First: r.stepOfEpoch()}, mean: r.lossSoFar}
	r.lossSoFar, r.mustEndEpoch = metrics.Mean{}, false
	if r.stopping { // this worker joined when all had agreed to stop
		return r.stopNow(ctx, e, r.stop.requested())
	}
	if r.divided == nil {
		if err := r.changeBetweenEpochs(ctx); err != nil {
			return err
		}
	}
	r.saver.spent = 0
	e.begin = time.Now()
	for again := true; again; {
		var err error
		if again, err = r.runDivision(ctx, e); err != nil {
			return err
		}
	}
	if r.over() || r.finished() || r.numEpoch()+1 >= r.cfg.Epochs {
		r.tellAllUsed()
	}
	if err := r.trainer.AverageState(ctx); err != nil {
		return err
	}
	info := &e.info
	info.Times.Add(r.trainer.TakeTimes())
	info.Staleness, info.Caught = r.trainer.TakeStaleness(), r.trainer.TakeCaught()
	info.Times.Save, info.Train = r.saver.spent, time.Since(e.begin)-e.evaluating
	info.Loss, info.Done, info.Bad = e.mean.Value(), r.trainer.Steps(), r.bad.count()
	if r.adapt != nil {
		info.Adapt = r.adapt.epochInfo(r.workers, info.Train)
	}
	if r.cfg.Evaluator != nil {
		begin := time.Now()
		scores, err := r.evaluateOnce(ctx, info)
		if err != nil {
			return fmt.Errorf("worker: evaluate after epoch %d: %w", r.numEpoch(), err)
		}
		info.Test, info.TestTime = &scores, time.Since(begin)
	}
	r.epochs = append(r.epochs, *info)
	for _, o := range r.cfg.Observers {
		o.Epoch(*info)
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	return r.saver.afterEpoch(ctx, r.position(), r.numEpoch()+1, r.isBest())
}

// runDivision trains until the division is used up or the membership has changed; again reports
// that there may be more of the epoch to train on.
func (r *run) runDivision(ctx context.Context, e *epochRun) (again bool, err error) {
	r.ahead.drop()
	if err := r.divide(); err != nil {
		return false, err
	}
	if r.adapt != nil {
		if err := r.adapt.begin(); err != nil {
			return false, err
		}
	}
	if err := r.checkLast(); err != nil {
		return false, err
	}
	if !r.over() && !r.epochOver() {
		if len(r.cuts) > 0 && r.step == 0 && r.saver.due(r.trainer.Steps()) { // a change came when a checkpoint was due
			if err := r.save(ctx, e); err != nil {
				return false, err
			}
		}
		r.bad.pass(r.epoch)
		if err := r.cfg.Feed.Begin(ctx, r.epoch, r.step); err != nil {
			return false, err
		}
	}
	e.span, e.from = r.newSpan(), time.Now()
	r.beginSteps(&e.info)
	defer func() { r.clock.pause(r, &e.info) }()
	if r.mustEvaluate {
		r.mustEvaluate = false
		if err := r.evaluateWithin(ctx, e); err != nil {
			return false, err
		}
	}
	for !r.over() && !r.finished() && !r.epochOver() {
		agreed, err := r.runStep(ctx, e)
		if err != nil {
			return false, err
		}
		r.step++
		if r.elastic != nil {
			r.elastic.Progress(r.trainer.Steps(), uint64(r.numEpoch()))
		}
		r.stopping = agreed.stop
		if err := r.saver.heard(agreed); err != nil {
			return false, err
		}
		if err := r.bad.heard(agreed, r.workers); err != nil {
			return false, fmt.Errorf("worker: epoch %d step %d: %w", r.epoch, r.before+r.step-1, err)
		}
		if agreed.change {
			err = r.boundary(ctx, e)
		}
		switch {
		case err != nil:
			return false, err
		case agreed.stop:
			return false, r.stopNow(ctx, e, agreed.requested)
		case agreed.change:
			return true, nil
		}
		resized, err := r.resize(e, agreed)
		if err != nil {
			return false, err
		}
		if r.epochOver() { // the last step is left to the epoch's end, which saves the averaged statistics
			break
		}
		save, evaluate := agreed.save || r.saver.due(r.trainer.Steps()), r.evaluationDue()
		if save || evaluate {
			changed, err := r.callRoll(ctx, e)
			if err == nil && !changed && evaluate {
				err = r.evaluateWithin(ctx, e)
			}
			if err == nil && !changed && (save || evaluate && r.isBest()) {
				err = r.save(ctx, e)
			}
			if err != nil || changed {
				return changed, err
			}
		}
		if resized {
			return true, nil
		}
	}
	if err := r.trainer.Sync(ctx); err != nil {
		return false, err
	}
	if r.adapt != nil {
		r.adapt.measure()
		if err := r.adapt.checkEffect(); err != nil {
			return false, err
		}
	}
	if r.divided != nil {
		if changed, err := r.callRoll(ctx, e); err != nil || changed {
			return changed && !r.finished(), err
		}
	}
	r.closeSpan(e)
	if r.over() && !r.epochOver() && !r.finished() { // the epoch goes on in the next pass
		r.tellAllUsed()
		r.nextPass()
		return true, nil
	}
	return !r.over() && !r.epochOver() && !r.finished(), nil // the epoch's last step may have had no effect
}

// closeSpan ends the current span.
func (r *run) closeSpan(e *epochRun) Span {
	span := e.span
	span.Train = time.Since(e.from)
	if n := len(e.info.Spans); r.adapt != nil && n > 0 && e.info.Spans[n-1].goesOn(span) { // the pass over the data ended between them
		last := &e.info.Spans[n-1]
		last.Steps += span.Steps
		last.Examples += span.Examples
		last.Train += span.Train
	} else if span.Steps > 0 {
		e.info.Spans = append(e.info.Spans, span)
	}
	e.span, e.from = r.newSpan(), time.Now()
	return span
}

// position is where the run is.
func (r *run) position() position {
	at := position{Epoch: r.epoch, Step: r.step, Steps: r.trainer.Steps(), Cuts: r.cuts, Order: orderOf(r.cfg.Feed), Bad: r.bad.count(), workers: r.workers, stepsOfDivision: r.cfg.Feed.Steps()}
	if r.adapt != nil {
		at.Adapt = r.adapt.state(r.adapt.epochDone())
	}
	if r.early != nil && r.early.state.Known {
		state := r.early.state
		at.Early = &state
	}
	return at
}

// save begins a checkpoint of this step.
func (r *run) save(ctx context.Context, e *epochRun) error {
	if err := r.settle(ctx); err != nil {
		return err
	}
	at := r.position()
	at.loss = e.mean
	return r.saver.save(ctx, at)
}

// stopNow writes a checkpoint, if there is a place for it, and ends the run. What is due after this
// step besides, an evaluation or the end of the epoch, is left to the resumed run, as there may be
// little time; but adaptive training, whose epochs end by progress, and dist_async go on with the
// next epoch. It repeats all of it if a worker was lost meanwhile, which may have been the one that
// writes.
func (r *run) stopNow(ctx context.Context, e *epochRun, requested bool) error {
	r.tellStop()
	for {
		changed, err := r.callRoll(ctx, e)
		if err != nil {
			return err
		}
		if changed {
			continue
		}
		if err := r.settle(ctx); err != nil {
			return err
		}
		at := r.position()
		at.loss = e.mean
		switch {
		case r.trainer.async():
		case r.adapt == nil && (r.over() || r.finished()):
			at.EndEpoch = true
		case r.epochOver():
			if err = r.trainer.AverageState(ctx); err == nil {
				err = r.settle(ctx)
			}
		default:
			at.Evaluate = r.evaluationDue()
		}
		saved := true
		switch {
		case err != nil:
		case r.trainer.async():
			err = r.saver.saveAlone(ctx, at)
		default:
			saved, err = r.saver.tryLast(ctx, at)
		}
		if err == nil && !saved {
			continue
		}
		if err == nil {
			changed, err = r.callRoll(ctx, e)
		}
		if err != nil {
			return err
		}
		if !changed {
			r.tellAllUsed()
			return r.stopped(ctx, requested)
		}
	}
}

// stopped ends the run after the checkpoint. If the job was asked to stop with one, the scheduler
// hears of it.
func (r *run) stopped(ctx context.Context, requested bool) error {
	store := r.trainer.cfg.Store
	switch {
	case !requested:
		if r.cfg.Checkpoint.Dir != "" && (!r.trainer.async() || r.trainer.cfg.Store.Rank() == 0) { // launch says what resumes the job
			exitreport.TellCheckpoint(os.Getenv, r.trainer.Steps())
		}
		return ErrStopped
	case r.cfg.Checkpoint.Dir == "":
		if err := store.ReportStopped(ctx, 0, "the workers have no folder for checkpoints (worker.CheckpointConfig.Dir)"); err != nil {
			return err
		}
		return ErrStopped
	case r.trainer.async() && r.trainer.cfg.Store.Rank() != 0: // rank 0's checkpoint is that of the job
		return ErrStopped
	}
	if err := store.ReportStopped(ctx, r.trainer.Steps(), ""); err != nil {
		return err
	}
	return ErrCheckpointed
}

// tellAllUsed passes to OnUsed what the current division has used up to here.
func (r *run) tellAllUsed() {
	r.tellUsed(r.cuts, r.workers, func(part int) int { return r.divided.Used(part, r.step) })
}
