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
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/kvstore"
)

// saver writes the checkpoints of one run.
type saver struct {
	cfg       CheckpointConfig
	trainer   *Trainer
	job       kvstore.Run                                          // that the job belongs to
	place     checkpoint.Place                                     // of Dir; nil: none
	local     bool                                                 // Dir is a folder of this host, which others may not see
	ranks     []int                                                // that this worker has had
	spent     time.Duration                                        // of Fit's own time, since the epoch began
	resumedAt uint64                                               // steps of the checkpoint that the run began with
	begun     time.Time                                            // when the last checkpoint was begun, or the run
	data      DataInfo                                             // that the run reads
	write     *checkpointWrite                                     // being written; nil: none
	anyFailed func(ctx context.Context, failed bool) (bool, error) // of the agreement

	failures int       // in a row
	again    time.Time // after a failure: when this worker, as rank 0, asks for the next try
	last     position  // of the newest end of an epoch
	lastDue  bool      // a checkpoint was due there
	// waits says that the last checkpoint failed and that rank 0 says when the next one is due.
	// It is the same on all workers: it changes by what all agreed on, and with the membership.
	waits bool
}

const (
	defaultFailures = 3
	// firstPause is the time between a checkpoint that failed and the next one while the run
	// goes on; it doubles up to longestPause.
	firstPause   = 10 * time.Second
	longestPause = 10 * time.Minute
	// lastPause is the same at the end of the run, where nothing else goes on meanwhile.
	lastPause = time.Second
)

// pause is the time to wait after so many failures in a row, beginning with first.
func pause(first time.Duration, failures int) time.Duration {
	for ; failures > 1 && first < longestPause; failures-- {
		first *= 2
	}
	return min(first, longestPause)
}

func newSaver(cfg CheckpointConfig, t *Trainer) *saver {
	if cfg.Keep == 0 {
		cfg.Keep = 2
	}
	if cfg.Failures == 0 {
		cfg.Failures = defaultFailures
	}
	cfg.EveryEpochs = max(cfg.EveryEpochs, 1)
	return &saver{cfg: cfg, trainer: t, job: kvstore.RunOf(t.cfg.Store)}
}

// open opens the place.
func (s *saver) open(ctx context.Context) (err error) {
	s.begun = time.Now()
	if s.cfg.Dir == "" {
		return nil
	}
	if s.cfg.Every > 0 && s.trainer.async() {
		return exitreport.Final(exitreport.Usage, fmt.Errorf("worker: CheckpointConfig.Every is %v with store %s, want 0 and EverySteps: its workers have no step in common", s.cfg.Every, asyncStore))
	}
	if s.place, err = checkpoint.OpenPlace(ctx, s.cfg.Dir); err != nil {
		if err = fmt.Errorf("worker: checkpoints: %w", err); errors.Is(err, checkpoint.ErrScheme) {
			err = exitreport.Final(exitreport.Usage, err)
		}
		return err
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
	return s.cfg.Dir != "" && !s.waits && s.falls(steps)
}

// falls reports whether one of every EverySteps falls on so many steps.
func (s *saver) falls(steps uint64) bool {
	return s.cfg.EverySteps > 0 && steps > 0 && steps%uint64(s.cfg.EverySteps) == 0
}

// lanes raises this worker's flags of the step: see agreement.
func (s *saver) lanes(flags []float32) {
	f := s.write
	switch {
	case f == nil && s.waits:
		if s.trainer.cfg.Store.Rank() == 0 && !time.Now().Before(s.again) {
			flags[laneSave] = 1
		}
	case f == nil && s.cfg.Dir != "" && s.cfg.Every > 0 && s.trainer.cfg.Store.Rank() == 0 && time.Since(s.begun) >= s.cfg.Every:
		flags[laneSave] = 1
	case f == nil:
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
	f := s.write
	if v.known && v.save {
		s.waits = false
	}
	switch {
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
	err := errors.Join(f.notRemoved, s.pruneWorkerFiles(f))
	if err == nil {
		s.failures = 0
		return nil
	}
	if s.failures++; s.failures >= s.cfg.Failures {
		return err
	}
	s.trainer.cfg.Logger.Warn("a checkpoint is complete, and older ones could not be removed", "steps", f.steps, "error", err,
		"failures", s.failures, "most", s.cfg.Failures, joblog.CheckpointFailed.With())
	return nil
}

// drop gives up the checkpoint of which some worker could not write its part: on all workers, after
// the same step. On that worker it is an error if it is one too many in a row.
func (s *saver) drop(last bool) error {
	f := s.write
	s.write, s.waits = nil, true
	s.failures++
	wait := pause(firstPause, s.failures)
	s.again = time.Now().Add(wait)
	if f == nil { // this worker joined meanwhile
		return nil
	}
	err := f.err()
	f.discard()
	if err != nil && s.failures >= s.cfg.Failures {
		return fmt.Errorf("%w; checkpoints failed %s in a row (CheckpointConfig.Failures)", err, plural.Of(s.failures, "time"))
	}
	if f.leads {
		text := "training goes on without the checkpoint at step %d; the next try is in %s"
		if last {
			text, wait = "the last checkpoint, at step %d, is tried again in %s", pause(lastPause, s.failures)
		}
		s.trainer.cfg.Logger.Warn(fmt.Sprintf(text, f.steps, wait), "failures", s.failures, "most", s.cfg.Failures, joblog.CheckpointFailed.With())
	}
	return nil
}

// membersChanged forgets that a try is due later: workers that have come know nothing of it. The
// next checkpoint that is due is the next try.
func (s *saver) membersChanged() { s.waits = false }

// afterEpoch saves at the end of an epoch, after which so many are done; best: in any case.
func (s *saver) afterEpoch(ctx context.Context, at position, epochs int, best bool) error {
	// Where the run resumed just before the end of the epoch that checkpoint has all.
	resumedHere := at.Steps == s.resumedAt && at.Steps > 0
	s.last, s.lastDue = at, s.cfg.Dir != "" && !resumedHere && (epochs%s.cfg.EveryEpochs == 0 || s.falls(at.Steps) || best)
	if !s.lastDue || s.waits {
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
	defer s.trainer.trace.span(trace.Save)()
	if s.trainer.async() { // without rounds, values must not change while they are read
		return s.saveWaiting(ctx, at, s.trainer.cfg.Store.Barrier)
	}
	// After one that failed the next try is later.
	if ok, err := s.finish(ctx, s.anyFailed, false); err != nil || !ok {
		return err
	}
	return s.begin(ctx, at)
}

// tryLast writes the checkpoint with which the run stops or ends, and returns when it is complete
// on all workers. It is not ok if it was dropped: then all workers try again after a pause, until
// there were too many failures in a row.
func (s *saver) tryLast(ctx context.Context, at position) (ok bool, err error) {
	if s.cfg.Dir == "" {
		return true, nil
	}
	if _, err := s.finish(ctx, s.anyFailed, true); err != nil {
		return false, err
	}
	if err := s.begin(ctx, at); err != nil {
		return false, err
	}
	if ok, err = s.finish(ctx, s.anyFailed, true); err != nil || ok {
		return ok, err
	}
	t := time.NewTimer(pause(lastPause, s.failures))
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
	ok, err := s.finish(ctx, s.anyFailed, s.lastDue)
	if err != nil || ok && !s.waits || !s.lastDue {
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
	_, err := s.finish(ctx, func(ctx context.Context, failed bool) (bool, error) {
		if failed { // without rounds the others cannot be told
			return true, s.write.err()
		}
		if err := barrier(ctx); err != nil {
			return false, fmt.Errorf("worker: checkpoint at step %d: %w", at.Steps, err)
		}
		return false, nil
	}, true)
	return err
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
	if at.Early != nil {
		f.best = at.Early.Steps
	}
	var err error
	if f.metadata, f.tensors, err = s.trainer.copyWorkerState(ctx, at.Steps, at.loss); err != nil {
		return fail(err)
	}
	ctx, f.cancel = context.WithCancel(ctx)
	if rank == 0 {
		f.leads, f.keep = true, s.cfg.Keep
		f.manifest = manifest{Version: at.version(), position: at, Workers: at.workers, StepsPerEpoch: at.stepsOfDivision, Data: s.data.orNil()}
		if f.snapshot, err = store.Snapshot(ctx); err != nil {
			f.cancel()
			return fail(err)
		}
	}
	s.write, s.begun = f, time.Now()
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
// there is none. All workers call it after the same step, and agree on whether any of them failed.
// It is not ok if the checkpoint was dropped for that; last says that training does not go on then.
// Where rank 0 is lost on the way there is no manifest, and so no checkpoint.
func (s *saver) finish(ctx context.Context, anyFailed func(ctx context.Context, failed bool) (bool, error), last bool) (ok bool, err error) {
	if s.cfg.Dir == "" {
		return true, nil
	}
	// Workers that joined meanwhile have nothing to write, and agree as well.
	f := s.write
	if f != nil {
		if err := f.wait(ctx, f.written); err != nil {
			return false, err
		}
	}
	failed, err := anyFailed(ctx, f != nil && f.err() != nil)
	if err == nil && !failed { // the files of all workers are written
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

// pruneWorkerFiles removes the older files of a worker that has Dir for itself, when a checkpoint
// is complete. Where it is shared rank 0 has left nothing to do.
func (s *saver) pruneWorkerFiles(f *checkpointWrite) error {
	if f.leads || !s.local {
		return nil
	}
	ctx := context.Background()
	folders, err := checkpoint.ListSaved(ctx, s.place)
	if err != nil {
		return err
	}
	folders = slices.DeleteFunc(folders, func(x checkpoint.Saved) bool { return x.Steps > f.steps }) // rank 0 may be ahead
	for _, x := range folders[:max(0, len(folders)-s.cfg.Keep)] {
		if x.Steps == f.best {
			continue
		}
		for _, rank := range s.ranks {
			if err := s.place.Remove(ctx, x.Name(checkpoint.WorkerFile(rank))); err != nil {
				return fmt.Errorf("worker: remove old checkpoint: %w", err)
			}
		}
	}
	return nil
}

// prune removes all but the newest checkpoints and the best one, and what crashes have left, up to
// a step.
func prune(ctx context.Context, place checkpoint.Place, keep int, upTo, best uint64) error {
	folders, err := checkpoint.ListSaved(ctx, place)
	if err != nil {
		return err
	}
	complete := 0
	for _, x := range slices.Backward(folders) {
		if x.Steps > upTo {
			continue
		}
		if x.Complete() {
			if complete++; complete <= keep || x.Steps == best {
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
func removeStep(ctx context.Context, place checkpoint.Place, x *checkpoint.Saved) error {
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

// clear removes what an earlier job, which ended in the middle, has left of checkpoints, so that
// none is made of parts of two.
func (s *saver) clear(ctx context.Context) error {
	if err := prune(ctx, s.place, math.MaxInt, math.MaxUint64, 0); err != nil {
		return fmt.Errorf("worker: remove checkpoints that were not completed: %w", err)
	}
	return nil
}
