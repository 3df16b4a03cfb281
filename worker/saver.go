package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"time"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/trace"
)

// saver writes the checkpoints of one run.
type saver struct {
	cfg       CheckpointConfig
	trainer   *Trainer
	place     checkpoint.Place // of Dir; nil: none
	local     bool             // Dir is a folder of this host, which others may not see
	ranks     []int            // that this worker has had
	spent     time.Duration    // of Fit's own time, since the epoch began
	resumedAt uint64           // steps of the checkpoint that the run began with
	begun     time.Time        // when the last checkpoint was begun, or the run
	write     *checkpointWrite // being written; nil: none
}

func newSaver(cfg CheckpointConfig, t *Trainer) *saver {
	if cfg.Keep == 0 {
		cfg.Keep = 2
	}
	cfg.EveryEpochs = max(cfg.EveryEpochs, 1)
	return &saver{cfg: cfg, trainer: t}
}

// open opens the place.
func (s *saver) open(ctx context.Context) (err error) {
	s.begun = time.Now()
	if s.cfg.Dir == "" {
		return nil
	}
	if s.cfg.Every > 0 && s.trainer.async() {
		return fmt.Errorf("worker: CheckpointConfig.Every is %v with store %s, want 0 and EverySteps: its workers have no step in common", s.cfg.Every, asyncStore)
	}
	if s.place, err = checkpoint.OpenPlace(ctx, s.cfg.Dir); err != nil {
		return fmt.Errorf("worker: checkpoints: %w", err)
	}
	_, err = checkpoint.LocalPath(s.cfg.Dir)
	s.local = err == nil
	return nil
}

// close cancels the checkpoint being written.
func (s *saver) close() {
	if s.write != nil {
		s.write.end()
		s.write = nil
	}
	if s.place != nil {
		_ = s.place.Close() // whatever matters has been written or has told
		s.place = nil
	}
}

// due reports whether a save after so many steps in all is due.
func (s *saver) due(steps uint64) bool {
	return s.cfg.Dir != "" && s.cfg.EverySteps > 0 && steps > 0 && steps%uint64(s.cfg.EverySteps) == 0
}

// lanes raises this worker's flags of the step: see agreement.
func (s *saver) lanes(flags []float32) {
	f := s.write
	switch {
	case f == nil && s.cfg.Dir != "" && s.cfg.Every > 0 && s.trainer.cfg.Store.Rank() == 0 && time.Since(s.begun) >= s.cfg.Every:
		flags[laneSave] = 1
	case f == nil:
	case f.complete.Load():
		flags[laneComplete] = 1
	case !f.there.Load():
		flags[laneWriting] = 1
	}
}

// heard acts on what all workers agreed on after a step: when no worker writes any more rank 0 may complete the checkpoint, and
// when it is complete this worker forgets it.
func (s *saver) heard(v verdict) error {
	f := s.write
	switch {
	case f == nil || !v.known:
		return nil
	case v.complete:
		s.write = nil
		f.end()
		return errors.Join(f.err(), s.pruneWorkerFiles(f))
	case !v.writing:
		f.allThere()
	}
	return nil
}

// afterEpoch saves at the end of an epoch, after which so many are done.
func (s *saver) afterEpoch(ctx context.Context, at position, epochs int) error {
	switch {
	case at.Steps == s.resumedAt && at.Steps > 0: // the run resumed just before the end of the epoch: that checkpoint has all
		return nil
	case epochs%s.cfg.EveryEpochs != 0 && !s.due(at.Steps):
		return nil
	}
	return s.save(ctx, at)
}

// save begins to write a checkpoint. All workers call it after the same step.
func (s *saver) save(ctx context.Context, at position) error {
	if s.cfg.Dir == "" {
		return nil
	}
	begin := time.Now()
	defer func() { s.spent += time.Since(begin) }()
	defer s.trainer.recordSpan(trace.Save)()
	if s.trainer.async() { // without rounds, values must not change while they are read
		return s.saveWaiting(ctx, at, s.trainer.barrier)
	}
	if err := s.finish(ctx, s.trainer.barrier, false); err != nil {
		return err
	}
	return s.begin(ctx, at)
}

// saveAlone writes the checkpoint of a worker that stops by itself: rank 0's is that of the job, the others end without.
func (s *saver) saveAlone(ctx context.Context, at position) error {
	if s.cfg.Dir == "" || s.trainer.cfg.Store.Rank() != 0 {
		return nil
	}
	return s.saveWaiting(ctx, at, func(context.Context) error { return nil })
}

// saveWaiting writes a checkpoint while this worker waits.
func (s *saver) saveWaiting(ctx context.Context, at position, barrier func(context.Context) error) error {
	if err := s.trainer.Flush(ctx); err != nil {
		return err
	}
	if err := barrier(ctx); err != nil { // no worker pushes any more
		return fmt.Errorf("worker: checkpoint at step %d: %w", at.Steps, err)
	}
	if err := s.begin(ctx, at); err != nil {
		return err
	}
	return s.finish(ctx, barrier, true)
}

// begin makes the copies of one checkpoint and begins to write them.
func (s *saver) begin(ctx context.Context, at position) error {
	fail := func(err error) error { return fmt.Errorf("worker: checkpoint at step %d: %w", at.Steps, err) }
	if err := s.trainer.Flush(ctx); err != nil {
		return fail(err)
	}
	store := s.trainer.cfg.Store
	rank := store.Rank()
	if !slices.Contains(s.ranks, rank) {
		s.ranks = append(s.ranks, rank)
	}
	f := &checkpointWrite{
		place: s.place, logger: s.trainer.cfg.Logger, reporter: s.trainer.cfg.Store, name: path.Join(checkpoint.StepFolder(at.Steps), checkpoint.WorkerFile(rank)), steps: at.Steps,
		written: make(chan struct{}), all: make(chan struct{}), done: make(chan struct{}),
	}
	var err error
	if f.metadata, f.tensors, err = s.trainer.copyWorkerState(ctx, at.Steps, at.loss); err != nil {
		return fail(err)
	}
	ctx, f.cancel = context.WithCancel(ctx)
	if rank == 0 {
		f.leads, f.keep = true, s.cfg.Keep
		f.manifest = manifest{Version: at.version(), position: at, Workers: at.workers, StepsPerEpoch: at.stepsOfDivision}
		if f.snapshot, err = store.Snapshot(ctx); err != nil {
			f.cancel()
			return fail(err)
		}
	}
	s.write, s.begun = f, time.Now()
	go f.run(ctx)
	return nil
}

// wasRead returns when the checkpoint being written needs no more reads from the store: at a boundary no call may be under way.
func (s *saver) wasRead() error {
	if f := s.write; f != nil && f.leads {
		if err := f.snapshot.Wait(); err != nil {
			return fmt.Errorf("worker: checkpoint at step %d: %w", f.steps, err)
		}
	}
	return nil
}

// finish returns when the checkpoint that is being written is complete, or when there is none; last: on all workers. All workers
// call it after the same step. Where rank 0 is lost on the way there is no manifest, and so no checkpoint.
func (s *saver) finish(ctx context.Context, barrier func(context.Context) error, last bool) error {
	if s.cfg.Dir == "" {
		return nil
	}
	f := s.write
	if f != nil {
		if err := f.wait(ctx, f.written); err != nil {
			return err
		}
	}
	// Workers that joined meanwhile have nothing to write, and take part in the barriers as well.
	met := func() error {
		if err := barrier(ctx); err != nil {
			return fmt.Errorf("worker: checkpoint at step %d: %w", s.trainer.Steps(), err)
		}
		return nil
	}
	if err := met(); err != nil { // the files of all workers are written
		return err
	}
	if f != nil {
		f.allThere()
		if err := f.wait(ctx, f.done); err != nil {
			return err
		}
	}
	if last {
		if err := met(); err != nil { // no worker ends before it is complete
			return err
		}
	}
	s.write = nil
	if f == nil || !last {
		return nil
	}
	return s.pruneWorkerFiles(f)
}

// pruneWorkerFiles removes the older files of a worker that has Dir for itself, when a checkpoint is complete. Where it is shared rank 0 has
// left nothing to do.
func (s *saver) pruneWorkerFiles(f *checkpointWrite) error {
	if f.leads || !s.local {
		return nil
	}
	ctx := context.Background()
	folders, err := checkpoint.ListSteps(ctx, s.place)
	if err != nil {
		return err
	}
	folders = slices.DeleteFunc(folders, func(x checkpoint.Step) bool { return x.Steps > f.steps }) // rank 0 may be ahead
	for _, x := range folders[:max(0, len(folders)-s.cfg.Keep)] {
		for _, rank := range s.ranks {
			if err := s.place.Remove(ctx, x.Name(checkpoint.WorkerFile(rank))); err != nil {
				return fmt.Errorf("worker: remove old checkpoint: %w", err)
			}
		}
	}
	return nil
}

// prune removes all but the newest checkpoints, and what crashes have left, up to a step.
func prune(ctx context.Context, place checkpoint.Place, keep int, upTo uint64) error {
	folders, err := checkpoint.ListSteps(ctx, place)
	if err != nil {
		return err
	}
	complete := 0
	for _, x := range slices.Backward(folders) {
		if x.Steps > upTo {
			continue
		}
		if x.Complete() {
			if complete++; complete <= keep {
				continue
			}
		}
		if err := removeStep(ctx, place, &x); err != nil {
			return err
		}
	}
	return nil
}

// removeStep removes a checkpoint. The manifest goes first: a folder half removed is no checkpoint.
func removeStep(ctx context.Context, place checkpoint.Place, x *checkpoint.Step) error {
	if x.Complete() {
		if err := place.Remove(ctx, x.Name(checkpoint.ManifestFile)); err != nil {
			return err
		}
	}
	for _, name := range x.Files {
		if err := place.Remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// clear removes what an earlier job, which ended in the middle, has left of checkpoints, so that none is made of parts of two.
func (s *saver) clear(ctx context.Context) error {
	if err := prune(ctx, s.place, math.MaxInt, math.MaxUint64); err != nil {
		return fmt.Errorf("worker: remove checkpoints that were not completed: %w", err)
	}
	return nil
}
