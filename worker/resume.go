package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// resume loads the newest checkpoint that rank 0 finds, if the configuration asks for it, and returns where the run goes on.
func (s *saver) resume(ctx context.Context) (at position, from string, err error) {
	if s.cfg.Dir == "" {
		return position{}, "", nil
	}
	m, err := s.newest(ctx)
	if err != nil || !s.cfg.Resume {
		return position{}, "", err
	}
	if m.Version == 0 {
		s.trainer.cfg.Logger.Info("no checkpoint to resume from: starting anew", "folder", s.cfg.Dir)
		return position{}, "", nil
	}
	from = filepath.Join(s.cfg.Dir, stepFolder(m.Steps))
	if err := s.load(ctx, m, from); err != nil {
		return position{}, "", fmt.Errorf("worker: resume from %s: %w", from, err)
	}
	s.trainer.setSteps(m.Steps)
	s.trainer.cfg.Logger.Info("resumed", "folder", from, "epoch", m.Epoch, "step", m.Step)
	return m.position, from, nil
}

// newest tells all workers which checkpoint rank 0 found; Version 0: none. A run that starts anew finds none, or it would
// mix its own with those of another run.
func (s *saver) newest(ctx context.Context) (m manifest, err error) {
	if s.trainer.cfg.Store.Rank() == 0 {
		found, err := findCheckpoints(s.cfg.Dir)
		if err != nil {
			return m, err
		}
		if len(found) > 0 {
			m = found[len(found)-1]
		}
		if m.Version != 0 && !s.cfg.Resume {
			return m, fmt.Errorf("worker: folder %s has checkpoints of another run, the newest after %d steps: resume it, remove them, or take another folder", s.cfg.Dir, m.Steps)
		}
	}
	// Also a run that starts anew takes part: the broadcast's key belongs to those that a checkpoint holds.
	numbers, err := s.trainer.broadcast(ctx, []uint64{
		uint64(m.Version), uint64(m.Epoch), uint64(m.Step), m.Steps, uint64(m.Workers), uint64(m.StepsPerEpoch),
	})
	if err != nil {
		return m, fmt.Errorf("worker: resume: %w", err)
	}
	m.Version, m.Epoch, m.Step, m.Steps = int(numbers[0]), int(numbers[1]), int(numbers[2]), numbers[3]
	m.Workers, m.StepsPerEpoch = int(numbers[4]), int(numbers[5])
	return m, nil
}

// load brings the checkpoint in a folder to the store and the programs.
func (s *saver) load(ctx context.Context, m manifest, from string) error {
	store := s.trainer.cfg.Store
	if m.Workers != store.NumWorkers() {
		return fmt.Errorf("it was written by %d workers and this job has %d; the same run goes on only with as many", m.Workers, store.NumWorkers())
	}
	if m.StepsPerEpoch != s.stepsPerEpoch {
		return fmt.Errorf("its epochs have %d steps and those of this run %d; the same run goes on only with the same data and batch", m.StepsPerEpoch, s.stepsPerEpoch)
	}
	own := filepath.Join(from, workerFile(store.Rank()))
	err := s.trainer.loadOwn(own)
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.trainer.async() && store.Rank() != 0:
		// Rank 0 saved alone when the job was stopped; the statistics of rank 0 are as good as those of any worker.
		if err := s.trainer.loadOwn(filepath.Join(from, workerFile(0))); err != nil {
			return err
		}
		own = "" // what rank 0's pushes have left out is not this worker's
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; each worker needs its own file: bring it there, or share the folder", err)
	case err != nil:
		return err
	}
	if err := store.Load(ctx, filepath.Join(from, storeFile)); err != nil {
		return err
	}
	if own != "" {
		if err := s.trainer.loadResiduals(ctx, own); err != nil {
			return err
		}
	}
	return s.trainer.pullAll(ctx)
}
