package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/kvstore"
)

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
