package tune

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

// Folders of a study: trials/trial-000007 is a trial's, and step-12.1 in it the checkpoint
// that attempt 1 saved at step 12.
const trialsFolder = "trials"

func (k keptStep) folder() string {
	return filepath.Join(trialsFolder, trialName(k.trial), fmt.Sprintf("step-%d.%d", k.step, k.attempt))
}

// checkpoint saves what write puts into a folder as the trial's checkpoint at a step. It takes
// effect with the report of its step, so that no report is skipped; if that came before, at once.
func (s *Study) checkpoint(trial, attempt, step int, write func(dir string) error) error {
	if s.cfg.Fidelity != nil {
		return nil // each level begins anew
	}
	k := keptStep{trial, step, attempt}
	where := fmt.Sprintf("tune: checkpoint of trial %d step %d", trial, step)
	alone := s.saving(trial)
	// Goroutines of a trial may save one step together.
	alone.Lock()
	defer alone.Unlock()
	path, saved, err := s.checkpointPath(where, k)
	if err != nil || saved {
		return err
	}
	bytes, err := writeFolder(path, write, real(s.log.fsys))
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	s.mu.Lock()
	seq, err := s.keep(where, path, keptBytes{k, bytes})
	s.mu.Unlock()
	if err != nil || seq == 0 {
		return err
	}
	if err := s.awaitWritten(seq); err != nil {
		return err
	}
	s.sweep()
	return nil
}

// saving is the mutex that is held while a checkpoint of a trial is saved.
func (s *Study) saving(trial int) *sync.Mutex {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checkpoints.alone(trial)
}

// checkpointPath is where a checkpoint is to be written. saved says that its step was saved before,
// by this attempt or another.
func (s *Study) checkpointPath(where string, k keptStep) (path string, saved bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.checkpoints.make(); err != nil {
		return "", false, err
	}
	if err := s.broken(); err != nil {
		return "", false, err
	}
	t := s.l.Trial(k.trial)
	switch {
	case t == nil || !t.run.active || t.Attempts != k.attempt:
		return "", false, fmt.Errorf("%s: attempt %d has ended: %w", where, k.attempt, ErrStop)
	case t.run.told == Exploit:
		return "", false, fmt.Errorf("%s: the trial continues from another trial's checkpoint: %w", where, ErrPause)
	case k.step < 0:
		return "", false, fmt.Errorf("%s: want a step of 0 or more", where)
	}
	saved = s.checkpoints.isStaged(k) || slices.ContainsFunc(t.Checkpoints, func(c Checkpoint) bool { return c.Step == k.step })
	return s.checkpoints.path(k), saved, nil
}

// keep stages a checkpoint that was written, or logs it if its step was reported before. seq is the
// event to wait for; 0: none. s.mu is held.
func (s *Study) keep(where, path string, c keptBytes) (seq uint64, err error) {
	t := s.l.trials[c.trial]
	if !t.run.active || t.Attempts != c.attempt || t.run.told == Exploit {
		return 0, errors.Join(fmt.Errorf("%s: attempt %d has ended: %w", where, c.attempt, ErrStop), os.RemoveAll(path))
	}
	if old, ok := s.checkpoints.unstage(c.trial); ok && old.attempt == c.attempt && old.step != c.step {
		if err := s.commit(old); err != nil {
			return 0, err
		}
	}
	if last, ok := t.LastStep(); !ok || c.step > last {
		s.checkpoints.stage(c)
		return 0, nil
	}
	err = s.commit(c)
	return max(s.l.seq, 1) - 1, err
}

// commit logs a checkpoint. s.mu is held.
func (s *Study) commit(c keptBytes) error {
	e := Event{Kind: EventCheckpoint, Trial: c.trial, Attempt: c.attempt, Step: c.step, Bytes: c.bytes}
	if err := s.emit(&e, func() error { return s.l.keep(&e) }); err != nil {
		return err
	}
	s.collect()
	return nil
}

// writeFolder makes a folder atomically, also with regard to a crash, and returns its size in
// bytes.
func writeFolder(path string, write func(dir string) error, sync bool) (int64, error) {
	temp := path + vfs.TempSuffix
	if err := os.RemoveAll(temp); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(temp, 0o777); err != nil {
		return 0, err
	}
	err := write(temp)
	var bytes int64
	if err == nil {
		bytes, err = syncTree(temp, sync)
	}
	if err == nil {
		err = writeSums(temp, sync)
	}
	if err == nil {
		if err = os.RemoveAll(path); err == nil { // a crash may have left one
			err = os.Rename(temp, path)
		}
	}
	if err == nil && sync {
		err = vfs.OS{}.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return 0, errors.Join(err, os.RemoveAll(temp))
	}
	return bytes, nil
}

// syncTree syncs all files and folders if it is to, and adds up the bytes of the files.
func syncTree(root string, sync bool) (int64, error) {
	var bytes int64
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case info.Mode().IsRegular():
			bytes += info.Size()
		case !d.IsDir():
			return nil
		}
		switch {
		case !sync:
			return nil
		case d.IsDir():
			return vfs.OS{}.SyncDir(path)
		}
		return vfs.SyncFile(path)
	})
	return bytes, err
}

// sweep removes the folders whose removal is in the log.
func (s *Study) sweep() {
	done := s.journal.done()
	s.mu.Lock()
	due := s.checkpoints.due(done)
	s.mu.Unlock()
	for _, d := range due {
		if err := os.RemoveAll(d.path); err != nil {
			s.logger.Warn("tune: cannot remove a checkpoint", "path", d.path, "error", err)
		}
	}
}

// reconcile compares the folders with the log when a study is opened: it removes folders that are
// not in the log, and logs the drop of checkpoints without a folder. s.mu is held.
func (s *Study) reconcile() error {
	known := map[string]bool{}
	var lost []keptBytes
	for _, c := range s.l.allKept() {
		path := s.checkpoints.path(c.keptStep)
		known[path] = true
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			lost = append(lost, c)
		}
	}
	for _, c := range lost {
		s.logger.Warn("tune: a checkpoint is missing", "trial", c.trial, "step", c.step)
		e := Event{Kind: EventDrop, Trial: c.trial, Attempt: c.attempt, Step: c.step, Bytes: c.bytes}
		if err := s.emit(&e, func() error { return s.l.drop(&e) }); err != nil {
			return err
		}
	}
	unknown, err := s.checkpoints.unknown(known)
	if err != nil {
		return err
	}
	if err := removeAll(unknown); err != nil {
		return fmt.Errorf("tune: remove a checkpoint that is not in the log: %w", err)
	}
	return nil
}

// isCheckpoint says whether a name is one of those that checkpoints have, whole or not.
func isCheckpoint(name string) bool {
	name, _ = strings.CutSuffix(name, vfs.TempSuffix)
	var k keptStep
	_, err := fmt.Sscanf(name, "step-%d.%d", &k.step, &k.attempt)
	return err == nil && k.step >= 0 && name == filepath.Base(k.folder()) // the whole name must fit
}
