package worker

import (
	"context"
	"errors"
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

// members are what a run knows of workers that come and go.
type members struct {
	// elastic and roll are nil where workers neither come nor go.
	elastic kvstore.Elastic
	roll    *rollcall.Roll
	// joined says that this worker came to a running job.
	joined bool
}

// elasticOf returns a store as one whose workers may come and go after a step that all agree on;
// nil: it is none.
func elasticOf(store kvstore.Store) kvstore.Elastic {
	switch store.Type() {
	case "dist_sync", "dist_device_sync":
		return store
	}
	return nil
}

// joins reports whether this worker joins a running job and does not count yet.
func joins(store kvstore.Elastic) bool { return store.Joining() }

// askLeave asks the scheduler to let this worker leave. It is nil where workers do not come or go,
// or the work of this one could not go to the others.
func (m *members) askLeave(shared bool) func(ctx context.Context) error {
	if m.elastic == nil || !shared {
		return nil
	}
	return func(ctx context.Context) error { return m.elastic.AskLeave(ctx, "it was told to end") }
}

// unfinished is what comes before the next step of a run that was stopped.
type unfinished struct {
	// loss is this worker's in the epoch so far.
	loss metrics.Mean
	// evaluate asks for an evaluation within the epoch, and endEpoch for the end of the epoch.
	evaluate, endEpoch bool
}

func newRun(cfg FitConfig) *run {
	t := cfg.Trainer
	elastic := elasticOf(t.cfg.Store)
	r := &run{
		cfg: cfg, trainer: t, store: t.cfg.Store, logger: t.cfg.Logger,
		division: newDivision(cfg.Feed, cfg.OnUsed, elastic != nil), members: members{elastic: elastic},
		data: dataOf(cfg.Feed), ahead: newPrefetch(cfg.Feed), bad: newBadTally(cfg.Feed, t.cfg.Logger), observers: cfg.Observers,
		evaluations: evaluations{evaluator: cfg.Evaluator, every: cfg.EvaluateSteps, devices: t.devices, trace: &t.trace, report: t.cfg.Store.ReportEvaluation},
	}
	r.epochs.division = r.division
	r.folder = &checkpointFolder{dir: cfg.Checkpoint.Dir, job: kvstore.RunOf(r.store), logger: r.logger}
	r.saver = newSaver(cfg.Checkpoint, r.folder, r.data, saverEnv{
		store: r.store, logger: r.logger, alone: t.async(), flush: t.Flush, copyState: t.copyWorkerState, span: t.trace.span,
		anyFailed: func(ctx context.Context, failed bool) (bool, error) { return r.agreement.anyFailed(ctx, failed) },
	})
	return r
}

// begin makes this worker a part of the job, at the step at which all are.
func (r *run) begin(ctx context.Context) error {
	if err := r.cfg.Checkpoint.validateFor(r.store.Type()); err != nil {
		return err
	}
	if err := r.folder.open(ctx); err != nil {
		return err
	}
	r.store.ReportCheckpointFolder(r.cfg.Checkpoint.Dir != "")
	if r.cfg.EMA != nil {
		r.trainer.averages = newAverages(*r.cfg.EMA, r.trainer.devices.params())
		r.evaluations.averages = r.trainer.averages
	}
	from, err := r.enter(ctx)
	if err != nil {
		return err
	}
	r.connect()
	if err := r.epochs.divide(); err != nil {
		return err
	}
	if r.members.joined && r.cfg.OnMembership != nil {
		r.cfg.OnMembership(r.division.seat.rank, r.division.seat.workers)
	}
	r.observers.begin(r.describe(from))
	return nil
}

// enter joins a running job, or begins one with all workers, from a checkpoint's folder if there is
// one. Where the scheduler has removed this worker every request is refused, whatever it was.
func (r *run) enter(ctx context.Context) (from string, err error) {
	if e := r.members.elastic; e != nil && e.Joining() {
		err = r.join(ctx)
	} else {
		from, err = r.start(ctx)
	}
	if err != nil && r.leave.granted() && !errors.Is(err, ErrRemoved) {
		err = fmt.Errorf("worker: join: %w (%w)", ErrRemoved, err)
	}
	return from, err
}

// start begins a run with all workers of the job, or resumes one.
func (r *run) start(ctx context.Context) (from string, err error) {
	resumed, err := (&resumer{
		cfg: r.cfg.Checkpoint, folder: r.folder, store: r.store, state: r.trainer, feed: r.cfg.Feed, data: r.data, logger: r.logger,
		alone: r.trainer.async(), adapting: r.cfg.Adapt != nil,
	}).resume(ctx)
	if err != nil {
		return "", err
	}
	if r.store.Rank() == 0 {
		r.folder.takeOver(ctx)
	}
	at, state := resumed.at, feedCurrent
	if resumed.from != "" {
		state = feedOutdated
		r.trainer.setSteps(at.Steps)
		r.saver.resumedAt = at.Steps
	}
	r.division.begin(seatIn(r.store), at, resumed.past, state)
	r.owed = unfinished{resumed.loss, at.Evaluate, at.EndEpoch}
	r.bad.begin(at.Epoch, at.Bad)
	if r.cfg.Adapt != nil {
		if err := r.beginAdapting(ctx, at.Adapt, false); err != nil {
			return "", err
		}
	}
	if err := r.makeKeys(ctx); err != nil {
		return "", err
	}
	if r.evaluations.early != nil && at.Early != nil {
		r.evaluations.early.resume(*at.Early)
	}
	if err := r.epochs.divide(); err != nil {
		return "", err
	}
	r.division.recount()
	return resumed.from, nil
}

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

// connect lets the parts tell all workers what they know in the agreement of each step.
func (r *run) connect() {
	r.agreement.env = agreementEnv{
		leaving: r.leave.told,
		changing: func() bool {
			return r.members.elastic != nil && r.division.divided != nil && r.members.elastic.Pending() != 0
		},
		raise: func(flags []float32) {
			r.saver.lanes(flags)
			r.bad.lanes(flags, r.division.seat.rank)
			if r.adapt != nil {
				r.adapt.decider.lanes(flags, r.division.seat.rank)
			}
		},
	}
	r.trainer.contribution.counting = r.members.elastic != nil && r.division.divided != nil
}

// describe tells observers where the run begins.
func (r *run) describe(from string) Run {
	info := Run{
		Rank: r.division.seat.rank, Workers: r.division.seat.workers, Epochs: r.cfg.Epochs, StepsPerEpoch: r.epochs.steps(),
		FirstEpoch: r.epochs.number(), FirstStep: r.epochs.step(), Done: r.trainer.Steps(), ResumedFrom: from, Joined: r.members.joined, Data: r.data,
	}
	if r.members.elastic != nil {
		info.Node = r.members.elastic.NodeID()
	}
	if r.adapt != nil {
		i := r.adapt.info(r.division.seat.workers)
		info.Adapt = &i
	}
	return info
}

// train goes through the epochs that are left.
func (r *run) train(ctx context.Context) error {
	for ; r.epochs.number() < r.cfg.Epochs && (!r.finished() || r.owed.endEpoch); r.epochs.next() {
		if err := r.runEpoch(ctx); err != nil {
			return err
		}
	}
	return r.trainer.Flush(ctx)
}

// complete writes the last checkpoint, and gives the programs the values that the configuration
// asks for. An asynchronous worker has written all it has to.
func (r *run) complete(ctx context.Context) error {
	if r.trainer.async() {
		return nil
	}
	if err := r.saver.end(ctx); err != nil {
		return err
	}
	v := &r.evaluations
	if v.averages != nil && v.averages.cfg.Result {
		v.averages.put(r.trainer.devices.own)
	}
	if v.early == nil {
		return nil
	}
	return v.early.restore(ctx, r.division.seat, r.trainer.Steps(), r.trainer.devices, r.cfg.Checkpoint.Dir)
}

// end gives back what begin has taken.
func (r *run) end() {
	r.agreement.close()
	r.trainer.contribution.counting = false
	if r.adapt != nil {
		r.trainer.setPlan(nil)
		if err := r.adapt.end(); err != nil {
			r.logger.Error("adaptive training: programs could not be closed", "error", err)
		}
	}
	r.observers.end()
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
