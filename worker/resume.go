package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
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
	// from is the checkpoint's folder; empty: the run begins anew.
	from string
	// loss is this worker's in the epoch so far.
	loss metrics.Mean
}

// A resumer finds the checkpoint that a run goes on from, and brings it to the store and to this
// worker. Nothing of this worker or of the servers has changed when it finds that the checkpoint is
// damaged or of another run.
type resumer struct {
	cfg    CheckpointConfig
	folder *checkpointFolder
	store  resumingStore
	state  resumable
	feed   Feed
	// data is what this run reads.
	data   DataInfo
	logger *slog.Logger
	// alone says that workers have no step in common, adapting that the batch size changes.
	alone, adapting bool
}

// A resumingStore is what a resumer needs of a kvstore.Store.
type resumingStore interface {
	Rank() int
	NumWorkers() int
	Broadcast(ctx context.Context, make func() (string, error)) (string, error)
	Load(ctx context.Context, uri string) error
}

// resumable is what a checkpoint is loaded into beside the store: a Trainer.
type resumable interface {
	// loadWorkerFile verifies and loads the file of a rank, and returns its loss of the epoch.
	loadWorkerFile(ctx context.Context, place checkpoint.Place, steps uint64, rank int) (metrics.Mean, error)
	// loadResiduals loads what that file has of compressed pushes, after the store was loaded.
	loadResiduals(ctx context.Context, place checkpoint.Place, name string) error
	// pullAll brings the store's values to all devices.
	pullAll(ctx context.Context) error
	// midRound reports whether what was loaded is in the middle of a round of local steps.
	midRound() bool
}

// resume loads the newest checkpoint that rank 0 finds, if the configuration asks for it, and
// returns where the run goes on.
func (s *resumer) resume(ctx context.Context) (r resumed, err error) {
	m, err := s.newest(ctx, orderOf(s.feed))
	switch {
	case err != nil || s.cfg.Dir == "":
		return r, err
	case m.Version == 0:
		if s.cfg.Resume {
			s.logger.Info("no checkpoint to resume from: starting from the beginning", "folder", s.cfg.Dir)
		}
		return r, nil
	}
	r.from = checkpoint.Join(s.cfg.Dir, checkpoint.StepFolder(m.Steps))
	err = s.checkAdapting(m)
	if err == nil {
		err = s.reorder(m)
	}
	if err == nil {
		r.at, r.past, err = s.divide(m)
	}
	if err = exitreport.Final(exitreport.NoResume, err); err == nil {
		r.loss, err = s.load(ctx, m, r.from)
	}
	if err != nil {
		return r, fmt.Errorf("worker: resume from %s: %w", r.from, err)
	}
	// The loss may be of another epoch, or of another share.
	if r.at.Epoch != m.Epoch || m.Workers != s.store.NumWorkers() {
		r.loss = metrics.Mean{}
	}
	s.logger.Info("resumed", "folder", r.from, "epoch", m.Epoch, "step", m.Step, "workers then", m.Workers, joblog.Resumed.With("steps", m.Steps))
	return r, nil
}

// checkAdapting is an error if one of the run and the checkpoint adapts and the other does not.
func (s *resumer) checkAdapting(m manifest) error {
	switch {
	case s.adapting && m.Adapt == nil:
		return errors.New("a run without FitConfig.Adapt wrote it, and this run has it: resume without it, or start a new run with ImportModel")
	case !s.adapting && m.Adapt != nil:
		return errors.New("a run with FitConfig.Adapt wrote it, and this run has none: set it as it was")
	case s.adapting:
		return m.Adapt.check()
	}
	return nil
}

// newest tells all workers which checkpoint rank 0 found; Version 0: none. A run that starts anew
// finds none, or it would mix its own with those of another run. There the manifest has the order
// of rank 0's examples, which must be that of all.
//
// They also hear which data rank 0 reads: it is an error if another worker reads other data. An
// error of rank 0 is returned on rank 0 alone, which says what is wrong.
func (s *resumer) newest(ctx context.Context, order string) (m manifest, err error) {
	var failed error
	text, err := s.store.Broadcast(ctx, func() (string, error) {
		var found manifest
		if s.cfg.Dir != "" {
			if found, failed = s.folder.choose(ctx, s.cfg, &s.data); failed != nil {
				return "", failed
			}
		}
		if found.Version == 0 {
			found.Order = order
		}
		// The sums of its files have been compared: the others need none.
		found.Manifest = checkpoint.Manifest{}
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
		return m, exitreport.Final(exitreport.Usage, fmt.Errorf("worker: this worker, rank %d, and rank 0 read different data: %s; give all the same", s.store.Rank(), other))
	}
	if m.Version == 0 && m.Order != order {
		return m, exitreport.Final(exitreport.Usage, fmt.Errorf("worker: the order of this worker's examples is %q, and that of rank 0 %q, want the same on all workers", order, m.Order))
	}
	if len(m.Cuts) > 0 && s.alone {
		return m, noResume("worker: resume: the checkpoint after %d steps was written in the middle of an epoch in which the workers changed; to resume it use store dist_sync", m.Steps)
	}
	return m, nil
}

// reorder gives the feed the order of the checkpoint: in another one the run would use some
// examples of the epoch twice.
func (s *resumer) reorder(m manifest) error {
	own := orderOf(s.feed)
	if own == "" && m.Order == "" {
		return nil
	}
	changed, err := reorder(s.feed, m.order())
	if changed && err == nil {
		s.logger.Info("the order of the examples is that of the checkpoint, to the end of this run", "order", m.order(), "configured", own)
	}
	return err
}

// divide finds out where in the epoch this job goes on: where the other one was, or, with another
// number of workers, at a cut.
func (s *resumer) divide(m manifest) (at position, p past, err error) {
	divided, ok := s.feed.(DividedFeed)
	same := m.Workers == s.store.NumWorkers()
	if err := s.checkDivision(m, ok, same); err != nil {
		return at, p, err
	}
	if err := s.feedAsThen(m); err != nil {
		return at, p, err
	}
	at = m.position
	if m.Step >= m.StepsPerEpoch && !(m.EndEpoch && same) {
		at.EndEpoch = false
		at.Epoch, at.Step, at.Cuts, at.Bad = m.Epoch+1, 0, nil, 0
	}
	// A new division has no segments yet.
	if m.Adapt != nil && (at.Epoch > m.Epoch || !same) {
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

// checkDivision is an error if this job cannot go on with as many workers as it has. divided says
// that its feed can be, same that the other one had as many.
func (s *resumer) checkDivision(m manifest, divided, same bool) error {
	workers := s.store.NumWorkers()
	switch {
	case !same && s.alone:
		return fmt.Errorf("it was written by %d workers and this job has %d; a dist_async run resumes only with the same number", m.Workers, workers)
	case !same && !divided:
		return fmt.Errorf("it was written by %d workers and this job has %d, and feed %T cannot share the examples anew: make it a worker.DividedFeed, or start as many workers", m.Workers, workers, s.feed)
	case len(m.Cuts) > 0 && !divided:
		return fmt.Errorf("it was written in the middle of an epoch in which the workers changed, and feed %T is not a worker.DividedFeed", s.feed)
	}
	return nil
}

// feedAsThen gives the feed the division that the checkpoint was written in, which shows whether it
// has the same data and batch size.
func (s *resumer) feedAsThen(m manifest) error {
	if divided, ok := s.feed.(DividedFeed); ok {
		if err := divided.Divided(min(s.store.Rank(), m.Workers-1), m.Workers, m.Cuts); err != nil {
			return err
		}
	}
	if m.Adapt != nil {
		for _, g := range m.Adapt.Segments {
			if err := s.feed.(BatchFeed).Resize(g.First, g.PerStep); err != nil {
				return err
			}
		}
	}
	if m.StepsPerEpoch != s.feed.Steps() {
		return fmt.Errorf("its epochs have %d steps and those of this run %d; resume with the same data and batch size", m.StepsPerEpoch, s.feed.Steps())
	}
	return nil
}

// load brings the checkpoint in a folder to the store and the worker.
func (s *resumer) load(ctx context.Context, m manifest, from string) (loss metrics.Mean, err error) {
	loss, own, err := s.loadOwn(ctx, m)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return loss, exitreport.Final(exitreport.MissingFile, fmt.Errorf("%w; each worker needs its own file or that of rank 0: bring it there, or share the folder", err))
	case errors.Is(err, checkpoint.ErrDamaged):
		return loss, exitreport.Final(exitreport.Damaged, err)
	case err != nil:
		return loss, err
	case s.state.midRound() && (!own || m.Workers != s.store.NumWorkers()):
		return loss, noResume("it was written in the middle of a round of local steps by %d workers and this job has %d, or rank %d has no file of its own in it; resume with as many workers and all files, or from the end of an epoch", m.Workers, s.store.NumWorkers(), s.store.Rank())
	}
	if err := s.store.Load(ctx, checkpoint.Join(from, checkpoint.StoreFile)); err != nil {
		if errors.Is(err, kvstore.ErrSize) {
			err = fmt.Errorf("%w; %s", err, otherFreeze)
		}
		return loss, err
	}
	if own {
		if err := s.state.loadResiduals(ctx, s.folder.place, workerFile(m.Steps, s.store.Rank())); err != nil {
			return loss, err
		}
	}
	return loss, s.state.pullAll(ctx)
}

// loadOwn loads this rank's file, or else rank 0's: the rank is new, or was lost while it saved, or
// rank 0 saved alone (dist_async). What rank 0's pushes have left out is not this worker's, so own
// is false then.
func (s *resumer) loadOwn(ctx context.Context, m manifest) (loss metrics.Mean, own bool, err error) {
	rank := s.store.Rank()
	loss, err = s.state.loadWorkerFile(ctx, s.folder.place, m.Steps, rank)
	if !errors.Is(err, fs.ErrNotExist) || rank == 0 {
		return loss, true, err
	}
	_, first := s.state.loadWorkerFile(ctx, s.folder.place, m.Steps, 0)
	switch {
	case first == nil:
		s.logger.Info("no file of this rank in the checkpoint: running statistics are those of rank 0", "rank", rank)
		return loss, false, nil
	case !errors.Is(first, fs.ErrNotExist):
		err = first
	}
	return loss, true, err
}
