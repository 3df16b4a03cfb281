package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"time"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/metrics"
)

// saver writes the checkpoints of one run, one at a time.
//
// A checkpoint begins on all workers after the same step. In a store with rounds each writes its
// part beside the training, and they learn in the agreements of later steps when all parts are
// there, whether one failed, and when the checkpoint is complete. Where nothing else goes on, at
// the end of a run or before the next checkpoint, finish waits for the same. A worker that joined
// meanwhile has nothing to write, and takes part in what all agree on.
type saver struct {
	env      saverEnv
	folder   *checkpointFolder
	schedule saveSchedule
	// data is what the run reads, for the manifest.
	data DataInfo
	// ranks are those that this worker has had: it wrote files under each.
	ranks []int
	// write is the checkpoint being written; nil: none is.
	write *checkpointWrite
	// spent is how much of Fit's own time checkpoints have taken since the epoch began. The
	// waits for the exchange are not in it: Trainer.Flush counts them as the wait of the steps.
	spent time.Duration
	// flushed is how long all flushes have taken.
	flushed time.Duration
	// resumedAt is the steps of the checkpoint that the run began with, or 0.
	resumedAt uint64
	// last is the position at the newest end of an epoch, and lastDue says that a checkpoint
	// was due there.
	last    position
	lastDue bool
}

// A saverEnv is what a saver needs of the run to make a checkpoint.
type saverEnv struct {
	store  savingStore
	logger *slog.Logger
	// alone says that workers have no step in common: the store is asynchronous.
	alone bool
	// flush waits for the exchange of the last step.
	flush func(ctx context.Context) error
	// copyState copies what is this worker's own and not the servers'.
	copyState func(ctx context.Context, steps uint64, loss metrics.Mean) (meta map[string]string, tensors []checkpoint.Tensor, err error)
	// anyFailed tells all workers whether one of them failed, between two steps.
	anyFailed func(ctx context.Context, failed bool) (bool, error)
	// span records a span of the training loop.
	span func(kind trace.Kind) func()
}

// A savingStore is what a saver needs of a kvstore.Store.
type savingStore interface {
	checkpointReporter
	Rank() int
	Barrier(ctx context.Context) error
	Snapshot(ctx context.Context) (*kvstore.Snapshot, error)
}

func newSaver(cfg CheckpointConfig, folder *checkpointFolder, data DataInfo, env saverEnv) *saver {
	return &saver{env: env, folder: folder, schedule: newSaveSchedule(cfg, time.Now()), data: data}
}

// close cancels the checkpoint being written.
func (s *saver) close() {
	if s.write != nil {
		s.write.end()
		s.write = nil
	}
}

// off reports whether there is no place for checkpoints.
func (s *saver) off() bool { return s.folder.dir == "" }

// lanes raises this worker's flags of the step: see agreement.
func (s *saver) lanes(flags []float32) {
	f := s.write
	switch {
	case f == nil:
		if s.env.store.Rank() == 0 && s.schedule.dueByClock(time.Now()) {
			flags[laneSave] = 1
		}
	case f.complete.Load():
		flags[laneComplete] = 1
	case f.err() != nil:
		flags[laneFailed] = 1
	case !f.there.Load():
		flags[laneWriting] = 1
	}
}

// heard acts on what all workers agreed on after a step: when no worker writes any more rank 0 may
// complete the checkpoint, and when it is complete this worker forgets it.
func (s *saver) heard(v verdict) error {
	if v.known && v.save {
		s.schedule.byConfig()
	}
	switch f := s.write; {
	case !v.known:
	case v.failed:
		return s.drop(false)
	case f == nil:
	case v.complete:
		return s.completed()
	case !v.writing:
		f.allThere()
	}
	return nil
}

// completed forgets a checkpoint that is complete on all workers. What could not be removed counts
// as a failure.
func (s *saver) completed() error {
	f := s.write
	if s.write = nil; f == nil {
		return nil
	}
	f.end()
	err := f.notRemoved
	if !f.leads && s.folder.local {
		err = errors.Join(err, s.folder.pruneOwn(context.Background(), s.ranks, s.schedule.cfg.Keep, f.steps, f.best))
	}
	if err == nil {
		s.schedule.failures = 0
		return nil
	}
	s.schedule.failures++
	if s.schedule.tooMany() {
		return err
	}
	s.env.logger.Warn("a checkpoint is complete, and older ones could not be removed", "steps", f.steps, "error", err,
		"failures", s.schedule.failures, "most", s.schedule.cfg.Failures, joblog.CheckpointFailed.With())
	return nil
}

// drop gives up the checkpoint of which some worker could not write its part: on all workers, after
// the same step. On that worker it is an error if it is one too many in a row. last says that the
// run does not go on without it.
func (s *saver) drop(last bool) error {
	f := s.write
	s.write = nil
	wait := s.schedule.failed(time.Now())
	if f == nil {
		return nil
	}
	err := f.err()
	f.discard()
	failures := s.schedule.failures
	if err != nil && s.schedule.tooMany() {
		return fmt.Errorf("%w; checkpoints failed %s in a row (CheckpointConfig.Failures)", err, plural.Of(failures, "time"))
	}
	if f.leads {
		text := "training goes on without the checkpoint at step %d; the next try is in %s"
		if last {
			text, wait = "the last checkpoint, at step %d, is tried again in %s", pause(lastPause, failures)
		}
		s.env.logger.Warn(fmt.Sprintf(text, f.steps, wait), "failures", failures, "most", s.schedule.cfg.Failures, joblog.CheckpointFailed.With())
	}
	return nil
}

// afterEpoch saves at the end of an epoch, after which so many are done; best: in any case. Where
// the run resumed just before the end of the epoch, that checkpoint has all.
func (s *saver) afterEpoch(ctx context.Context, at position, epochs int, best bool) error {
	resumedHere := at.Steps == s.resumedAt && at.Steps > 0
	s.last, s.lastDue = at, !resumedHere && s.schedule.dueAtEpoch(at.Steps, epochs, best)
	if !s.lastDue || s.schedule.pace == savesLater {
		return nil
	}
	return s.save(ctx, at)
}

// save begins to write a checkpoint. All workers call it after the same step. Where the one before
// is found to have failed, the next try is later.
func (s *saver) save(ctx context.Context, at position) error {
	if s.off() {
		return nil
	}
	begin, flushed := time.Now(), s.flushed
	defer func() { s.spent += time.Since(begin) - (s.flushed - flushed) }()
	defer s.env.span(trace.Save)()
	// Without rounds, values must not change while they are read.
	if s.env.alone {
		return s.saveWaiting(ctx, at, s.env.store.Barrier)
	}
	if ok, err := s.finish(ctx, s.env.anyFailed, false); err != nil || !ok {
		return err
	}
	return s.begin(ctx, at)
}

// tryLast writes the checkpoint with which the run stops or ends, and returns when it is complete
// on all workers. It is not ok if it was dropped: then all workers try again after a pause, until
// there were too many failures in a row.
func (s *saver) tryLast(ctx context.Context, at position) (ok bool, err error) {
	if s.off() {
		return true, nil
	}
	if _, err := s.finish(ctx, s.env.anyFailed, true); err != nil {
		return false, err
	}
	if err := s.begin(ctx, at); err != nil {
		return false, err
	}
	if ok, err = s.finish(ctx, s.env.anyFailed, true); err != nil || ok {
		return ok, err
	}
	t := time.NewTimer(pause(lastPause, s.schedule.failures))
	defer t.Stop()
	select {
	case <-t.C:
		return false, nil
	case <-ctx.Done():
		return false, fmt.Errorf("worker: checkpoint at step %d: %w", at.Steps, context.Cause(ctx))
	}
}

// end returns when the run's last checkpoint is complete.
func (s *saver) end(ctx context.Context) error {
	ok, err := s.finish(ctx, s.env.anyFailed, s.lastDue)
	if err != nil || ok && s.schedule.pace == savesByConfig || !s.lastDue {
		return err
	}
	for ok = false; !ok && err == nil; {
		ok, err = s.tryLast(ctx, s.last)
	}
	return err
}

// saveAlone writes the checkpoint of a worker that stops by itself: rank 0's is that of the job,
// the others end without.
func (s *saver) saveAlone(ctx context.Context, at position) error {
	if s.off() || s.env.store.Rank() != 0 {
		return nil
	}
	return s.saveWaiting(ctx, at, func(context.Context) error { return nil })
}

// saveWaiting writes a checkpoint while this worker waits, and others wait at the barrier. Without
// rounds the others cannot be told of a failure.
func (s *saver) saveWaiting(ctx context.Context, at position, barrier func(context.Context) error) error {
	if err := s.flush(ctx); err != nil {
		return err
	}
	if err := barrier(ctx); err != nil {
		return fmt.Errorf("worker: checkpoint at step %d: %w", at.Steps, err)
	}
	if err := s.begin(ctx, at); err != nil {
		return err
	}
	_, err := s.finish(ctx, func(ctx context.Context, failed bool) (bool, error) {
		if failed {
			return true, s.write.err()
		}
		if err := barrier(ctx); err != nil {
			return false, fmt.Errorf("worker: checkpoint at step %d: %w", at.Steps, err)
		}
		return false, nil
	}, true)
	return err
}

// flush waits for the exchange of the last step.
func (s *saver) flush(ctx context.Context) error {
	begin := time.Now()
	err := s.env.flush(ctx)
	s.flushed += time.Since(begin)
	return err
}

// begin makes the copies of one checkpoint and begins to write them.
func (s *saver) begin(ctx context.Context, at position) error {
	fail := func(err error) error { return fmt.Errorf("worker: checkpoint at step %d: %w", at.Steps, err) }
	if err := s.flush(ctx); err != nil {
		return fail(err)
	}
	rank := s.env.store.Rank()
	if !slices.Contains(s.ranks, rank) {
		s.ranks = append(s.ranks, rank)
	}
	f := &checkpointWrite{
		place: s.folder.place, logger: s.env.logger, reporter: s.env.store, name: path.Join(checkpoint.StepFolder(at.Steps), checkpoint.WorkerFile(rank)), steps: at.Steps,
		written: make(chan struct{}), all: make(chan struct{}), done: make(chan struct{}),
	}
	if at.Early != nil {
		f.best = at.Early.Steps
	}
	var err error
	if f.metadata, f.tensors, err = s.env.copyState(ctx, at.Steps, at.loss); err != nil {
		return fail(err)
	}
	ctx, f.cancel = context.WithCancel(ctx)
	if rank == 0 {
		f.leads, f.keep = true, s.schedule.cfg.Keep
		f.manifest = manifest{Version: at.version(), position: at, Workers: at.workers, StepsPerEpoch: at.stepsOfDivision, Data: s.data.orNil()}
		if f.snapshot, err = s.env.store.Snapshot(ctx); err != nil {
			f.cancel()
			return fail(err)
		}
	}
	s.write, s.schedule.begun = f, time.Now()
	go f.run(ctx)
	return nil
}

// wasRead returns when the checkpoint being written needs no more reads from the store: at a
// boundary no call may be under way.
func (s *saver) wasRead() error {
	if f := s.write; f != nil && f.leads {
		if err := f.snapshot.Wait(); err != nil {
			return fmt.Errorf("worker: checkpoint at step %d: %w", f.steps, err)
		}
	}
	return nil
}

// finish returns when the checkpoint that is being written is complete on all workers, or when
// there is none. All workers call it after the same step, and agree on whether any of them failed:
// once when their own files are written, and again when rank 0 has completed the checkpoint. It is
// not ok if the checkpoint was dropped for that; last says that training does not go on then. Where
// rank 0 is lost on the way there is no manifest, and so no checkpoint.
func (s *saver) finish(ctx context.Context, anyFailed func(ctx context.Context, failed bool) (bool, error), last bool) (ok bool, err error) {
	if s.off() {
		return true, nil
	}
	f := s.write
	if f != nil {
		if err := f.wait(ctx, f.written); err != nil {
			return false, err
		}
	}
	failed, err := anyFailed(ctx, f != nil && f.err() != nil)
	if err == nil && !failed {
		if f != nil {
			f.allThere()
			if err := f.wait(ctx, f.done); err != nil {
				return false, err
			}
		}
		failed, err = anyFailed(ctx, f != nil && f.err() != nil)
	}
	switch {
	case err != nil:
		return false, err
	case failed:
		return false, s.drop(last)
	}
	return true, s.completed()
}
