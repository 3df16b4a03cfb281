package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// A DamageError ends Fit when the checkpoint to resume from is damaged. Nothing has changed then.
type DamageError struct {
	Folder string // of the checkpoint
	Err    error  // names the file and the tensor
	// Whole is the number of steps of the newest older checkpoint that is whole, for
	// CheckpointConfig.ResumeStep; 0: there is none.
	Whole uint64
}

func (e *DamageError) Error() string {
	if e.Whole == 0 {
		return fmt.Sprintf("worker: checkpoint %s cannot be resumed from: %v; there is no older intact one", e.Folder, e.Err)
	}
	return fmt.Sprintf("worker: checkpoint %s cannot be resumed from: %v; the newest intact one is %s: resume from it with CheckpointConfig.ResumeStep %d",
		e.Folder, e.Err, checkpoint.StepFolder(e.Whole), e.Whole)
}

func (e *DamageError) Unwrap() error { return e.Err }

// choose finds the checkpoint to go on from, all of it verified; Version 0: none. What stands in
// its way is removed: newer ones that are damaged, and what was never completed.
func (s *saver) choose(ctx context.Context) (m manifest, err error) {
	all, err := checkpoint.ListSaved(ctx, s.place)
	if err != nil {
		return m, err
	}
	all = slices.DeleteFunc(all, func(x checkpoint.Saved) bool { return !x.Complete() })
	cfg := s.cfg
	if s.job.Again {
		own, err := s.owns(ctx)
		switch {
		case err != nil:
			return m, err
		case own:
			cfg.Resume, cfg.ResumeStep, cfg.Fallback = true, 0, true
		case cfg.Resume && len(all) > 0: // launch may have asked for it, with PARAGON_RESUME, and meant the run's own
			return m, otherRun("worker: folder %s has checkpoints of another run, the newest after %d steps, and this job failed before it had resumed from them: start it anew to resume from them, or take another folder",
				s.cfg.Dir, all[len(all)-1].Steps)
		}
	}
	switch {
	case len(all) == 0 && cfg.ResumeStep > 0:
		return m, noResume("worker: CheckpointConfig.ResumeStep is %d and folder %s has no checkpoint", cfg.ResumeStep, cfg.Dir)
	case len(all) == 0:
		return m, nil
	case !cfg.Resume:
		return m, otherRun("worker: folder %s has checkpoints of another run, the newest after %d steps: resume it, remove them, or take another folder", cfg.Dir, all[len(all)-1].Steps)
	}
	var broken []checkpoint.Saved
	for len(all) > 0 {
		x := all[len(all)-1]
		all = all[:len(all)-1]
		wanted := cfg.ResumeStep == 0 || cfg.ResumeStep == x.Steps
		m, err := s.verify(ctx, &x)
		switch {
		case err == nil && wanted:
			if err := s.checkData(m); err != nil {
				return m, err
			}
			return m, s.makeWay(ctx, m, broken)
		case err == nil && x.Steps > cfg.ResumeStep:
			return m, noResume("worker: CheckpointConfig.ResumeStep is %d and folder %s has a newer intact checkpoint, after %d steps: resume from that, or move it elsewhere first",
				cfg.ResumeStep, s.cfg.Dir, x.Steps)
		case x.Steps < cfg.ResumeStep:
			return m, noResume("worker: CheckpointConfig.ResumeStep is %d and folder %s has no such checkpoint; the nearest older one is after %d steps", cfg.ResumeStep, s.cfg.Dir, x.Steps)
		case !errors.Is(err, checkpoint.ErrDamaged):
			return m, err
		case wanted && (!cfg.Fallback || len(all) == 0):
			return m, exitreport.Final(exitreport.Damaged, s.damageOf(ctx, &x, err, all))
		}
		s.trainer.cfg.Logger.Warn("a checkpoint is damaged: looking for an older one", "folder", s.uri(x.Steps), "error", err,
			joblog.CheckpointDamaged.With("steps", x.Steps))
		broken = append(broken, x)
	}
	return m, noResume("worker: CheckpointConfig.ResumeStep is %d and folder %s has no such checkpoint", cfg.ResumeStep, s.cfg.Dir)
}

// otherRun and noResume make errors that no restart can mend.
func otherRun(format string, args ...any) error {
	return exitreport.Final(exitreport.OtherRun, fmt.Errorf(format, args...))
}

func noResume(format string, args ...any) error {
	return exitreport.Final(exitreport.NoResume, fmt.Errorf(format, args...))
}

// verify reads all files of a checkpoint that this worker sees.
func (s *saver) verify(ctx context.Context, x *checkpoint.Saved) (manifest, error) {
	m, err := readManifest(ctx, s.place, x)
	if err != nil {
		return m, err
	}
	return m, x.Verify(ctx, s.place, m.Manifest)
}

// makeWay removes what would get mixed with what the run writes from now on.
func (s *saver) makeWay(ctx context.Context, m manifest, broken []checkpoint.Saved) error {
	if m.Checksum == "" {
		s.trainer.cfg.Logger.Warn("the checkpoint has no checksums (an older version of Paragon wrote it); it is not verified", "folder", s.uri(m.Steps))
	}
	for _, x := range broken {
		if err := removeStep(ctx, s.place, &x); err != nil {
			return fmt.Errorf("worker: remove damaged checkpoint: %w", err)
		}
		s.trainer.cfg.Logger.Warn("removed a damaged checkpoint: resuming from an older one", "folder", s.uri(x.Steps), "resumes from", s.uri(m.Steps),
			joblog.CheckpointDamaged.With("steps", x.Steps))
	}
	return s.clear(ctx)
}

// damageOf makes the error of a damaged checkpoint; older ones come before it.
func (s *saver) damageOf(ctx context.Context, x *checkpoint.Saved, damage error, older []checkpoint.Saved) error {
	e := &DamageError{Folder: s.uri(x.Steps), Err: damage}
	for _, y := range slices.Backward(older) {
		if _, err := s.verify(ctx, &y); err == nil {
			e.Whole = y.Steps
			break
		}
	}
	return e
}

func (s *saver) uri(steps uint64) string {
	return checkpoint.Join(s.cfg.Dir, checkpoint.StepFolder(steps))
}
