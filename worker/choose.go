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
	// Folder is that of the checkpoint.
	Folder string
	// Err names the file and the tensor.
	Err error
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

// choose finds the checkpoint to go on from, all of it verified; Version 0: none. data is what this
// run reads. What stands in the checkpoint's way is removed: newer ones that are damaged, and what
// was never completed.
func (c *checkpointFolder) choose(ctx context.Context, cfg CheckpointConfig, data *DataInfo) (m manifest, err error) {
	all, err := checkpoint.ListSaved(ctx, c.place)
	if err != nil {
		return m, err
	}
	all = slices.DeleteFunc(all, func(x checkpoint.Saved) bool { return !x.Complete() })
	if cfg, err = c.forThisRun(ctx, cfg, all); err != nil {
		return m, err
	}
	switch {
	case len(all) == 0 && cfg.ResumeStep > 0:
		return m, noResume("worker: CheckpointConfig.ResumeStep is %d and folder %s has no checkpoint", cfg.ResumeStep, cfg.Dir)
	case len(all) == 0:
		return m, nil
	case !cfg.Resume:
		return m, otherRun("worker: folder %s has checkpoints of another run, the newest after %d steps: resume it, remove them, or take another folder", cfg.Dir, all[len(all)-1].Steps)
	}
	m, broken, err := c.newest(ctx, cfg, all)
	if err != nil {
		return m, err
	}
	if err := c.checkData(m, data); err != nil {
		return m, err
	}
	return m, c.makeWay(ctx, m, broken)
}

// forThisRun is the configuration of a job that launch may have started again: it resumes from its
// own checkpoints, whatever was asked. launch may have asked to resume (PARAGON_RESUME) and meant
// those, so a place of another run is an error then.
func (c *checkpointFolder) forThisRun(ctx context.Context, cfg CheckpointConfig, all []checkpoint.Saved) (CheckpointConfig, error) {
	if !c.job.Again {
		return cfg, nil
	}
	own, err := c.owns(ctx)
	switch {
	case err != nil:
		return cfg, err
	case own:
		cfg.Resume, cfg.ResumeStep, cfg.Fallback = true, 0, true
	case cfg.Resume && len(all) > 0:
		return cfg, otherRun("worker: folder %s has checkpoints of another run, the newest after %d steps, and this job failed before it had resumed from them: start it anew to resume from them, or take another folder",
			c.dir, all[len(all)-1].Steps)
	}
	return cfg, nil
}

// newest is the newest checkpoint that is wanted and whole. broken are the newer ones, which are
// damaged: the configuration allows to go on from an older one.
func (c *checkpointFolder) newest(ctx context.Context, cfg CheckpointConfig, all []checkpoint.Saved) (m manifest, broken []checkpoint.Saved, err error) {
	for len(all) > 0 {
		x := all[len(all)-1]
		all = all[:len(all)-1]
		wanted := cfg.ResumeStep == 0 || cfg.ResumeStep == x.Steps
		m, err := c.verify(ctx, &x)
		switch {
		case err == nil && wanted:
			return m, broken, nil
		case err == nil && x.Steps > cfg.ResumeStep:
			return m, nil, noResume("worker: CheckpointConfig.ResumeStep is %d and folder %s has a newer intact checkpoint, after %d steps: resume from that, or move it elsewhere first",
				cfg.ResumeStep, c.dir, x.Steps)
		case x.Steps < cfg.ResumeStep:
			return m, nil, noResume("worker: CheckpointConfig.ResumeStep is %d and folder %s has no such checkpoint; the nearest older one is after %d steps", cfg.ResumeStep, c.dir, x.Steps)
		case !errors.Is(err, checkpoint.ErrDamaged):
			return m, nil, err
		case wanted && (!cfg.Fallback || len(all) == 0):
			return m, nil, exitreport.Final(exitreport.Damaged, c.damageOf(ctx, &x, err, all))
		}
		c.logger.Warn("a checkpoint is damaged: looking for an older one", "folder", c.uri(x.Steps), "error", err,
			joblog.CheckpointDamaged.With("steps", x.Steps))
		broken = append(broken, x)
	}
	return m, nil, noResume("worker: CheckpointConfig.ResumeStep is %d and folder %s has no such checkpoint", cfg.ResumeStep, c.dir)
}

// makeWay removes what would get mixed with what the run writes from now on.
func (c *checkpointFolder) makeWay(ctx context.Context, m manifest, broken []checkpoint.Saved) error {
	if m.Checksum == "" {
		c.logger.Warn("the checkpoint has no checksums (an older version of Paragon wrote it); it is not verified", "folder", c.uri(m.Steps))
	}
	for _, x := range broken {
		if err := removeSaved(ctx, c.place, &x); err != nil {
			return fmt.Errorf("worker: remove damaged checkpoint: %w", err)
		}
		c.logger.Warn("removed a damaged checkpoint: resuming from an older one", "folder", c.uri(x.Steps), "resumes from", c.uri(m.Steps),
			joblog.CheckpointDamaged.With("steps", x.Steps))
	}
	return c.clear(ctx)
}

// damageOf makes the error of a damaged checkpoint; older ones come before it.
func (c *checkpointFolder) damageOf(ctx context.Context, x *checkpoint.Saved, damage error, older []checkpoint.Saved) error {
	e := &DamageError{Folder: c.uri(x.Steps), Err: damage}
	for _, y := range slices.Backward(older) {
		if _, err := c.verify(ctx, &y); err == nil {
			e.Whole = y.Steps
			break
		}
	}
	return e
}

// checkData is an error if the checkpoint is of a run that read other data than this one does.
func (c *checkpointFolder) checkData(m manifest, data *DataInfo) error {
	if what := data.differs(m.Data); what != "" {
		return noResume("worker: checkpoint %s is of a run with other data: %s; resume with the data as it was, or start a new run with ImportModel", c.uri(m.Steps), what)
	}
	if m.Data != nil && m.Data.Decoder != data.Decoder && data.Decoder != "" {
		c.logger.Warn("the checkpoint is of a run that decoded images with another version: pixels may differ by rounding, so the run does not go on to the last bit",
			"then", m.Data.Decoder, "now", data.Decoder)
	}
	return nil
}
