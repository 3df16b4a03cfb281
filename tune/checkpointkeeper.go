package tune

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/paragon-train/paragon/tune/internal/checkpoints"
	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// A checkpointKeeper saves the checkpoints of a study's trials, and removes those that are no
// longer needed. The log says which there are; a folder that it does not name is not a checkpoint.
type checkpointKeeper struct {
	// rec has the study's mutex, which guards folder, the ledger l and overBudget.
	rec    *recorder
	l      *ledger
	folder checkpoints.Folder
	logger *slog.Logger
	// durable has folders synced before their events: the study is on the machine's disk.
	durable bool
	// budget is Config.CheckpointBytes.
	budget int64
	// overBudget says that a message has told that checkpoints exceed their budget.
	overBudget bool
}

// save saves what write puts into a folder as the trial's checkpoint at a step. It takes effect
// with the report of its step, so that no report is skipped; if that came before, at once.
func (c *checkpointKeeper) save(trial, attempt, step int, write func(dir string) error) error {
	// Each level of a fidelity begins anew.
	if c.l.cfg.Fidelity != nil {
		return nil
	}
	name := checkpoints.Name{Trial: trial, Step: step, Attempt: attempt}
	where := fmt.Sprintf("tune: checkpoint of trial %d step %d", trial, step)
	alone := c.alone(trial)
	// Goroutines of a trial may save one step together.
	alone.Lock()
	defer alone.Unlock()
	path, saved, err := c.prepare(where, name)
	if err != nil || saved {
		return err
	}
	bytes, err := checkpoints.Write(path, write, c.durable)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	c.rec.mu.Lock()
	seq, err := c.keep(where, path, checkpoints.Saved{Name: name, Bytes: bytes})
	c.rec.mu.Unlock()
	if err != nil || seq == 0 {
		return err
	}
	if err := c.rec.awaitWritten(seq); err != nil {
		return err
	}
	c.sweep()
	return nil
}

// alone is the mutex that is held while a checkpoint of a trial is saved.
func (c *checkpointKeeper) alone(trial int) *sync.Mutex {
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	return c.folder.Alone(trial)
}

// prepare is where a checkpoint is to be written. saved says that its step was saved before, by
// this attempt or another.
func (c *checkpointKeeper) prepare(where string, name checkpoints.Name) (path string, saved bool, err error) {
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	if _, err := c.folder.Make(); err != nil {
		return "", false, err
	}
	if err := c.rec.broken(); err != nil {
		return "", false, err
	}
	t := c.l.view.Trial(name.Trial)
	switch {
	case t == nil || !t.run.active || t.Attempts != name.Attempt:
		return "", false, fmt.Errorf("%s: attempt %d has ended: %w", where, name.Attempt, ErrStop)
	case t.run.told == Exploit:
		return "", false, fmt.Errorf("%s: the trial continues from another trial's checkpoint: %w", where, ErrPause)
	case name.Step < 0:
		return "", false, fmt.Errorf("%s: want a step of 0 or more", where)
	}
	saved = c.folder.IsStaged(name) || slices.ContainsFunc(t.Checkpoints, func(old Checkpoint) bool { return old.Step == name.Step })
	return c.folder.Path(name), saved, nil
}

// keep stages a checkpoint that was written, or logs it if its step was reported before. seq is the
// event to wait for; 0: none. The study's mutex is held.
func (c *checkpointKeeper) keep(where, path string, saved checkpoints.Saved) (seq uint64, err error) {
	name := saved.Name
	t := c.l.view.trials[name.Trial]
	if !t.run.active || t.Attempts != name.Attempt || t.run.told == Exploit {
		return 0, errors.Join(fmt.Errorf("%s: attempt %d has ended: %w", where, name.Attempt, ErrStop), os.RemoveAll(path))
	}
	if old, ok := c.folder.Unstage(name.Trial); ok && old.Name.Attempt == name.Attempt && old.Name.Step != name.Step {
		if err := c.commit(old); err != nil {
			return 0, err
		}
	}
	if last, ok := t.LastStep(); !ok || name.Step > last {
		c.folder.Stage(saved)
		return 0, nil
	}
	err = c.commit(saved)
	return c.rec.newest(), err
}

// commit logs a checkpoint. The study's mutex is held.
func (c *checkpointKeeper) commit(saved checkpoints.Saved) error {
	e := Event{Kind: EventCheckpoint, Trial: saved.Name.Trial, Attempt: saved.Name.Attempt, Step: saved.Name.Step, Bytes: saved.Bytes}
	if err := c.rec.emit(&e, func() error { return c.l.keep(&e) }); err != nil {
		return err
	}
	c.collect()
	return nil
}

// addTo adds to a report the checkpoint that was saved for its step. One of a step that was not
// reported is logged by itself. The study's mutex is held.
func (c *checkpointKeeper) addTo(report *Event) error {
	saved, ok := c.folder.Unstage(report.Trial)
	switch {
	case !ok || saved.Name.Attempt != report.Attempt:
	case saved.Name.Step == report.Step:
		report.Kept, report.Bytes = true, saved.Bytes
	default:
		return c.commit(saved)
	}
	return nil
}

// collect removes unneeded checkpoints: those from before an exploit at once, others when the
// budget is exceeded. The study's mutex is held.
func (c *checkpointKeeper) collect() {
	over := c.budget > 0 && c.l.storage.bytes > c.budget
	if len(c.l.storage.stale) == 0 && !over {
		return
	}
	needed := c.l.view.trials.needed()
	for _, saved := range slices.Clone(c.l.storage.stale) {
		if !needed[saved.Name] {
			// The recorder keeps an error.
			_ = c.drop(saved)
		}
	}
	if c.budget == 0 {
		return
	}
	for _, saved := range c.l.view.victims(needed) {
		if c.l.storage.bytes <= c.budget {
			return
		}
		_ = c.drop(saved)
	}
	if c.l.storage.bytes > c.budget && !c.overBudget {
		c.overBudget = true
		c.logger.Warn("tune: checkpoints exceed their budget, and all of them are still needed", "study", c.rec.study,
			"bytes", c.l.storage.bytes, "budget", c.budget)
	}
}

// drop logs the removal of a checkpoint, whose folder goes once that is on the disk. The study's
// mutex is held.
func (c *checkpointKeeper) drop(saved checkpoints.Saved) error {
	seq, err := c.logDrop(saved)
	if err == nil {
		c.folder.Doom(saved.Name, seq)
	}
	return err
}

// logDrop logs that a checkpoint is gone, or is to go. The study's mutex is held.
func (c *checkpointKeeper) logDrop(saved checkpoints.Saved) (seq uint64, err error) {
	e := Event{Kind: EventDrop, Trial: saved.Name.Trial, Attempt: saved.Name.Attempt, Step: saved.Name.Step, Bytes: saved.Bytes}
	err = c.rec.emit(&e, func() error { return c.l.drop(&e) })
	return e.Seq, err
}

// sweep removes the folders whose removal is on the disk.
func (c *checkpointKeeper) sweep() {
	done := c.rec.journal.Done()
	c.rec.mu.Lock()
	due := c.folder.Due(done)
	c.rec.mu.Unlock()
	for _, d := range due {
		if err := os.RemoveAll(d.Path); err != nil {
			c.logger.Warn("tune: cannot remove a checkpoint", "path", d.Path, "error", err)
		}
	}
}

// reconcile compares the folders with the log when a study is opened: it removes folders that are
// not in the log, and logs the drop of checkpoints without a folder. The study's mutex is held.
func (c *checkpointKeeper) reconcile() error {
	known := map[string]bool{}
	var lost []checkpoints.Saved
	for _, saved := range c.l.allKept() {
		path := c.folder.Path(saved.Name)
		known[path] = true
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			lost = append(lost, saved)
		}
	}
	for _, saved := range lost {
		c.logger.Warn("tune: a checkpoint is missing", "trial", saved.Name.Trial, "step", saved.Name.Step)
		if _, err := c.logDrop(saved); err != nil {
			return err
		}
	}
	unknown, err := c.folder.Unknown(known)
	if err != nil {
		return err
	}
	if err := checkpoints.RemoveAll(unknown); err != nil {
		return fmt.Errorf("tune: remove a checkpoint that is not in the log: %w", err)
	}
	return nil
}

// stillWhole verifies the checkpoint that an attempt is to go on from. One that is damaged is
// dropped, as one that is missing is when a study is opened. One that cannot be read is taken for
// whole: the trial will say what is wrong with it. The study's mutex is held.
func (c *checkpointKeeper) stillWhole(name checkpoints.Name) (bool, error) {
	dir := c.folder.Path(name)
	known, err := checkpoints.Verify(dir)
	switch {
	case err == nil && !known:
		c.logger.Warn("tune: a checkpoint of an older version has no checksums and is not verified", "trial", name.Trial, "step", name.Step)
		return true, nil
	case err == nil:
		return true, nil
	case !errors.Is(err, checkpoints.ErrDamaged):
		c.logger.Warn("tune: a checkpoint could not be verified", "trial", name.Trial, "step", name.Step, "error", err)
		return true, nil
	}
	c.logger.Warn("tune: a checkpoint is damaged and is dropped; the trial resumes from an older one, or starts over", "trial", name.Trial, "step", name.Step, "folder", dir, "error", err)
	return false, c.drop(checkpoints.Saved{Name: name, Bytes: c.l.sizeOf(name)})
}

// trialFolder makes and returns the folder of a trial.
func (c *checkpointKeeper) trialFolder(trial int) (string, error) {
	c.rec.mu.Lock()
	root, err := c.folder.Make()
	c.rec.mu.Unlock()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, studydir.TrialsFolder, studydir.TrialName(trial))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", fmt.Errorf("tune: folder of trial %d: %w", trial, err)
	}
	return dir, nil
}

// path is that of a checkpoint.
func (c *checkpointKeeper) path(name checkpoints.Name) string {
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	return c.folder.Path(name)
}
