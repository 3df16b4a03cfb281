package worker

import (
	"context"
	"fmt"
	"os"

	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// stopNow writes a checkpoint, if there is a place for it, and ends the run. All workers repeat all
// of it if one was lost meanwhile, which may have been the one that writes, or if the checkpoint
// failed.
func (r *run) stopNow(ctx context.Context, e *epochRun, kind stopKind) error {
	r.tellStop()
	for {
		done, err := r.tryStop(ctx, e)
		if err != nil {
			return err
		}
		if done {
			r.division.tellAllUsed()
			return r.stopped(ctx, kind)
		}
	}
}

// tryStop writes the checkpoint between two roll calls: all have done the step, and none was lost
// since.
func (r *run) tryStop(ctx context.Context, e *epochRun) (done bool, err error) {
	if changed, err := r.callRoll(ctx, e); err != nil || changed {
		return false, err
	}
	at, err := r.stopPosition(ctx, e)
	if err != nil {
		return false, err
	}
	saved := true
	if r.trainer.async() {
		err = r.saver.saveAlone(ctx, at)
	} else {
		saved, err = r.saver.tryLast(ctx, at)
	}
	if err != nil || !saved {
		return false, err
	}
	changed, err := r.callRoll(ctx, e)
	return err == nil && !changed, err
}

// stopPosition is where the run stops. What is due after this step besides, an evaluation or the
// end of the epoch, is left to the resumed run, as there may be little time; but adaptive training,
// whose epochs end by progress, and dist_async go on with the next epoch.
func (r *run) stopPosition(ctx context.Context, e *epochRun) (position, error) {
	if err := r.settle(ctx); err != nil {
		return position{}, err
	}
	at := r.position()
	at.loss = e.mean
	switch {
	case r.trainer.async():
	case r.adapt == nil && (r.division.over() || r.finished()):
		at.EndEpoch = true
	case r.epochs.over():
		if err := r.trainer.AverageState(ctx); err != nil {
			return at, err
		}
		return at, r.settle(ctx)
	default:
		at.Evaluate = r.evaluationDue()
	}
	return at, nil
}

// stopped ends the run after the checkpoint. If the job was asked to stop with one, the scheduler
// hears of it; otherwise launch does, which says what resumes the job. Without rounds rank 0's
// checkpoint is that of the job.
func (r *run) stopped(ctx context.Context, kind stopKind) error {
	dir, alone := r.cfg.Checkpoint.Dir, r.trainer.async() && r.store.Rank() != 0
	switch {
	case kind != stopForCheckpoint:
		if dir != "" && !alone {
			exitreport.TellCheckpoint(os.Getenv, r.trainer.Steps())
		}
		return ErrStopped
	case dir == "":
		if err := r.store.ReportStopped(ctx, 0, "the workers have no folder for checkpoints (worker.CheckpointConfig.Dir)"); err != nil {
			return err
		}
		return ErrStopped
	case alone:
		return ErrStopped
	}
	if err := r.store.ReportStopped(ctx, r.trainer.Steps(), ""); err != nil {
		return err
	}
	return ErrCheckpointed
}

// tellStop logs that all workers stop, if this worker was told to end.
func (r *run) tellStop() {
	if !r.leave.told() {
		return
	}
	step := fmt.Sprintf("step %d", r.trainer.Steps())
	if r.trainer.async() {
		step = "a step of their own, this one after " + step
	}
	with := "with a checkpoint in " + r.cfg.Checkpoint.Dir
	if r.cfg.Checkpoint.Dir == "" {
		with = "without a checkpoint, as there is no folder for one"
	}
	r.logger.Info(fmt.Sprintf("told to end: all workers stop after %s, %s", step, with), joblog.LeaveAsked.With())
}
