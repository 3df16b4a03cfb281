package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/kvstore"
)

// ErrStopped ends Fit when it was asked to stop; a checkpoint, if there is a place for one, has
// been written.
var ErrStopped = errors.New("worker: stopped on request")

// ErrCheckpointed is ErrStopped of a job that was asked to stop with a checkpoint so that it goes
// on later (see kvstore.Stopper), where the checkpoint is complete. Close the store and exit with
// code 0.
var ErrCheckpointed = fmt.Errorf("%w, with a checkpoint to resume from", ErrStopped)

// Fit trains for the epochs of cfg, and resumes first if cfg says so. It returns what each epoch
// brought. All workers of the job call it with like configurations.
//
// In a job whose workers may change (kvstore.Elastic; stores dist_sync and dist_device_sync) all
// agree in each step whether there is a change to make. After that step each waits for its own
// exchange and reports to the scheduler which examples it has used. Then ranks and the number of
// workers are new, what remains of the epoch is divided over them, and training goes on. Each
// example of an epoch is used exactly once by steps that count. The last step of a lost worker
// counts if all shards have accepted its gradients. If only some have, its examples are used again,
// although these shards keep the gradients that they have. A worker that joins gets all values and
// begins at the step of the others (if the job finishes before, there are no epochs and no error).
// One that leaves gets ErrRemoved. What rank 0 does (checkpoints) moves to the new rank 0.
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
