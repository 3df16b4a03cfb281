package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/sampler"
)

// resumed is where a run begins.
type resumed struct {
	at   position
	past past
	from string       // folder; empty: anew
	loss metrics.Mean // of this worker in the epoch so far
}

// resume loads the newest checkpoint that rank 0 finds, if the configuration asks for it, and
// returns where the run goes on.
func (s *saver) resume(ctx context.Context, feed Feed, adapting bool) (r resumed, err error) {
	m, err := s.newest(ctx, orderOf(feed))
	switch {
	case err != nil || s.cfg.Dir == "":
		return r, err
	case m.Version == 0:
		if s.cfg.Resume {
			s.trainer.cfg.Logger.Info("no checkpoint to resume from: starting from the beginning", "folder", s.cfg.Dir)
		}
		return r, nil
	}
	r.from = checkpoint.Join(s.cfg.Dir, checkpoint.StepFolder(m.Steps))
	switch {
	case adapting && m.Adapt == nil:
		err = errors.New("a run without FitConfig.Adapt wrote it, and this run has it: resume without it, or start a new run with ImportModel")
	case !adapting && m.Adapt != nil:
		err = errors.New("a run with FitConfig.Adapt wrote it, and this run has none: set it as it was")
	case adapting:
		err = m.Adapt.check()
	}
	if err == nil {
		err = s.reorder(m, feed)
	}
	if err == nil {
		r.at, r.past, err = s.divide(m, feed)
	}
	if err = exitreport.Final(exitreport.NoResume, err); err == nil {
		r.loss, err = s.load(ctx, m, r.from)
	}
	if err != nil {
		return r, fmt.Errorf("worker: resume from %s: %w", r.from, err)
	}
	if r.at.Epoch != m.Epoch || m.Workers != s.trainer.cfg.Store.NumWorkers() {
		r.loss = metrics.Mean{} // of another epoch, or of another share
	}
	s.trainer.setSteps(m.Steps)
	s.resumedAt = m.Steps
	s.trainer.cfg.Logger.Info("resumed", "folder", r.from, "epoch", m.Epoch, "step", m.Step, "workers then", m.Workers, joblog.Resumed.With("steps", m.Steps))
	return r, nil
}

// newest tells all workers which checkpoint rank 0 found; Version 0: none. A run that starts anew
// finds none, or it would mix its own with those of another run. There the manifest has the order
// of rank 0's examples, which must be that of all.
//
// They also hear which data rank 0 reads: it is an error if another worker reads other data.
func (s *saver) newest(ctx context.Context, order string) (m manifest, err error) {
	var failed error // of rank 0, which says what is wrong
	text, err := s.trainer.cfg.Store.Broadcast(ctx, func() (string, error) {
		var found manifest
		if s.cfg.Dir != "" {
			if found, failed = s.choose(ctx); failed != nil {
				return "", failed
			}
		}
		if found.Version == 0 {
			found.Order = order
		}
		found.Manifest = checkpoint.Manifest{} // the sums of its files have been compared
		found.Data = s.data.short()
		text, err := json.Marshal(found)
		return string(text), err
	})
	switch {
	case failed != nil:
		return m, failed
	case err == nil:
		err = json.Unmarshal([]byte(text), &m)
	}
	if err != nil {
		return m, fmt.Errorf("worker: resume: %w", err)
	}
	if other := s.data.differs(m.Data); other != "" {
		return m, exitreport.Final(exitreport.Usage, fmt.Errorf("worker: this worker, rank %d, and rank 0 read different data: %s; give all the same", s.trainer.cfg.Store.Rank(), other))
	}
	if m.Version == 0 && m.Order != order {
		return m, exitreport.Final(exitreport.Usage, fmt.Errorf("worker: the order of this worker's examples is %q, and that of rank 0 %q, want the same on all workers", order, m.Order))
	}
	if len(m.Cuts) > 0 && s.trainer.async() {
		return m, noResume("worker: resume: the checkpoint after %d steps was written in the middle of an epoch in which the workers changed; to resume it use store dist_sync", m.Steps)
	}
	return m, nil
}

// reorder gives the feed the order of the checkpoint: in another one the run would use some
// examples of the epoch twice.
func (s *saver) reorder(m manifest, feed Feed) error {
	own := orderOf(feed)
	if own == "" && m.Order == "" {
		return nil
	}
	changed, err := reorder(feed, m.order())
	if changed && err == nil {
		s.trainer.cfg.Logger.Info("the order of the examples is that of the checkpoint, to the end of this run", "order", m.order(), "configured", own)
	}
	return err
}

// divide finds out where in the epoch this job goes on: where the other one was, or, with another
// number of workers, at a cut.
func (s *saver) divide(m manifest, feed Feed) (at position, p past, err error) {
	store := s.trainer.cfg.Store
	divided, ok := feed.(DividedFeed)
	same := m.Workers == store.NumWorkers()
	switch {
	case !same && s.trainer.async():
		return at, p, fmt.Errorf("it was written by %d workers and this job has %d; a dist_async run resumes only with the same number", m.Workers, store.NumWorkers())
	case !same && !ok:
		return at, p, fmt.Errorf("it was written by %d workers and this job has %d, and feed %T cannot share the examples anew: make it a worker.DividedFeed, or start as many workers", m.Workers, store.NumWorkers(), feed)
	case len(m.Cuts) > 0 && !ok:
		return at, p, fmt.Errorf("it was written in the middle of an epoch in which the workers changed, and feed %T is not a worker.DividedFeed", feed)
	}
	if ok {
		if err := divided.Divided(min(store.Rank(), m.Workers-1), m.Workers, m.Cuts); err != nil {
			return at, p, err
		}
	}
	if m.Adapt != nil {
		for _, g := range m.Adapt.Segments {
			if err := feed.(BatchFeed).Resize(g.First, g.PerStep); err != nil {
				return at, p, err
			}
		}
	}
	if m.StepsPerEpoch != feed.Steps() {
		return at, p, fmt.Errorf("its epochs have %d steps and those of this run %d; resume with the same data and batch size", m.StepsPerEpoch, feed.Steps())
	}
	at = m.position
	if m.Step >= m.StepsPerEpoch && !(m.EndEpoch && same) {
		at.EndEpoch = false
		at.Epoch, at.Step, at.Cuts, at.Bad = m.Epoch+1, 0, nil, 0
	}
	if m.Adapt != nil && (at.Epoch > m.Epoch || !same) { // a new division
		now := *m.Adapt
		now.Segments = nil
		at.Adapt = &now
	}
	if !ok || at.Epoch > m.Epoch {
		return at, p, nil
	}
	used := make([]int, m.Workers)
	for part := range used {
		used[part] = divided.Used(part, m.Step)
	}
	if !same {
		at.Cuts = append(slices.Clone(m.Cuts), sampler.Cut{Parts: m.Workers, Used: used})
		at.Step, used = 0, nil
	}
	return at, past{cuts: at.Cuts, used: used}, nil
}

// load brings the checkpoint in a folder to the store and the programs.
func (s *saver) load(ctx context.Context, m manifest, from string) (loss metrics.Mean, err error) {
	store := s.trainer.cfg.Store
	own := true
	loss, err = s.trainer.loadWorkerFile(ctx, s.place, m.Steps, store.Rank())
	if errors.Is(err, fs.ErrNotExist) && store.Rank() != 0 {
		// The rank is new, or was lost while it saved, or (dist_async) rank 0 saved alone.
		_, first := s.trainer.loadWorkerFile(ctx, s.place, m.Steps, 0)
		if first == nil {
			s.trainer.cfg.Logger.Info("no file of this rank in the checkpoint: running statistics are those of rank 0", "rank", store.Rank())
			own, err = false, nil // what rank 0's pushes have left out is not this worker's
		} else if !errors.Is(first, fs.ErrNotExist) {
			err = first
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return loss, exitreport.Final(exitreport.MissingFile, fmt.Errorf("%w; each worker needs its own file or that of rank 0: bring it there, or share the folder", err))
	case errors.Is(err, checkpoint.ErrDamaged):
		return loss, exitreport.Final(exitreport.Damaged, err)
	case err != nil:
		return loss, err
	case s.trainer.local != nil && s.trainer.local.done > 0 && (!own || m.Workers != store.NumWorkers()):
		return loss, noResume("it was written in the middle of a round of local steps by %d workers and this job has %d, or rank %d has no file of its own in it; resume with as many workers and all files, or from the end of an epoch", m.Workers, store.NumWorkers(), store.Rank())
	}
	if err := store.Load(ctx, checkpoint.Join(from, checkpoint.StoreFile)); err != nil {
		if errors.Is(err, kvstore.ErrSize) {
			err = fmt.Errorf("%w; %s", err, otherFreeze)
		}
		return loss, err
	}
	if own {
		if err := s.trainer.loadResiduals(ctx, s.place, workerFile(m.Steps, store.Rank())); err != nil {
			return loss, err
		}
	}
	return loss, s.trainer.pullAll(ctx)
}
