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

	"github.com/paragon-train/paragon/internal/files/scratch"
	"github.com/paragon-train/paragon/internal/files/vfs"
)

// Folders of a study: trials/trial-000007 is a trial's, and step-12.1 in it the checkpoint
// that attempt 1 saved at step 12.
const trialsFolder = "trials"

func (k keptStep) folder() string {
	return filepath.Join(trialsFolder, trialName(k.trial), fmt.Sprintf("step-%d.%d", k.step, k.attempt))
}

// A doomed folder is removed once event seq is on the disk.
type doomed struct {
	seq  uint64
	path string
}

// useFolder takes the study's folder for checkpoints. It is absolute, since processes of trials run
// in other folders.
func (s *Study) useFolder() (err error) {
	if s.folder, err = filepath.Abs(s.cfg.Dir); err != nil {
		return fmt.Errorf("tune: folder of the study: %w", err)
	}
	return nil
}

// keepFolder makes the folder that checkpoints go to. s.mu is held.
func (s *Study) keepFolder() (string, error) {
	if s.folder == "" {
		temp, err := scratch.New("study")
		if err != nil {
			return "", fmt.Errorf("tune: make a folder for checkpoints: %w", err)
		}
		s.folder, s.temp = temp.Path, temp
	}
	return s.folder, nil
}

// checkpoint saves what write puts into a folder as the trial's checkpoint at a step.
func (s *Study) checkpoint(trial, attempt, step int, write func(dir string) error) error {
	if s.cfg.Fidelity != nil {
		return nil // each level begins anew
	}
	where := fmt.Sprintf("tune: checkpoint of trial %d step %d", trial, step)
	defer s.saveAlone(trial)()
	s.mu.Lock()
	root, err := s.keepFolder()
	t := s.l.Trial(trial)
	switch {
	case err != nil:
	case s.broken() != nil:
		err = s.fatal
	case t == nil || !t.run.active || t.Attempts != attempt:
		err = fmt.Errorf("%s: attempt %d has ended: %w", where, attempt, ErrStop)
	case t.run.told == Exploit:
		err = fmt.Errorf("%s: the trial continues from another trial's checkpoint: %w", where, ErrPause)
	case step < 0:
		err = fmt.Errorf("%s: want a step of 0 or more", where)
	}
	kept := err == nil && slices.ContainsFunc(t.Checkpoints, func(c Checkpoint) bool { return c.Step == step })
	if c, ok := s.staged[trial]; ok && c.attempt == attempt && c.step == step {
		kept = true
	}
	s.mu.Unlock()
	if err != nil || kept { // saved before, by this attempt or another
		return err
	}
	path := filepath.Join(root, keptStep{trial, step, attempt}.folder())
	bytes, err := writeFolder(path, write, s.real())
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	s.mu.Lock()
	if !t.run.active || t.Attempts != attempt || t.run.told == Exploit {
		s.mu.Unlock()
		return errors.Join(fmt.Errorf("%s: attempt %d has ended: %w", where, attempt, ErrStop), os.RemoveAll(path))
	}
	c := keptBytes{keptStep{trial, step, attempt}, bytes}
	if old, ok := s.staged[trial]; ok && old.attempt == attempt && old.step != step {
		err = s.commit(old)
	}
	delete(s.staged, trial)
	if last, ok := t.LastStep(); (!ok || step > last) && err == nil { // it takes effect with the report of its step, so that no report is skipped
		s.staged[trial] = c
		s.mu.Unlock()
		return nil
	}
	if err == nil {
		err = s.commit(c)
	}
	seq := max(s.l.seq, 1) - 1
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.awaitWritten(seq); err != nil {
		return err
	}
	s.sweep()
	return nil
}

// saveAlone locks the saving of checkpoints of a trial and returns the unlock function: goroutines
// of a trial may save one step twice at the same time.
func (s *Study) saveAlone(trial int) (done func()) {
	s.mu.Lock()
	alone := s.keeping[trial]
	if alone == nil {
		alone = &sync.Mutex{}
		s.keeping[trial] = alone
	}
	s.mu.Unlock()
	alone.Lock()
	return alone.Unlock
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
		if err = os.RemoveAll(path); err == nil { // left by a crash, and not in the log
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

// real says whether the study's files are on the machine's disk, and not simulated by a test.
func (s *Study) real() bool {
	_, ok := s.fsys.(vfs.OS)
	return ok
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
	n := 0
	for n < len(s.doomed) && s.doomed[n].seq < done {
		n++
	}
	gone := s.doomed[:n:n]
	s.doomed = s.doomed[n:]
	s.mu.Unlock()
	for _, d := range gone {
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
	check := func(k keptStep, bytes int64) {
		path := filepath.Join(s.folder, k.folder())
		known[path] = true
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			lost = append(lost, keptBytes{k, bytes})
		}
	}
	for _, t := range s.l.trials {
		for _, c := range t.Checkpoints {
			check(c.of(t.Number), c.Bytes)
		}
	}
	for _, c := range s.l.stale {
		check(c.keptStep, c.bytes)
	}
	for _, c := range lost {
		s.logger.Warn("tune: a checkpoint is missing", "trial", c.trial, "step", c.step)
		e := Event{Kind: EventDrop, Trial: c.trial, Attempt: c.attempt, Step: c.step, Bytes: c.bytes}
		if err := s.emit(&e, func() error { return s.l.drop(&e) }); err != nil {
			return err
		}
	}
	trials, err := entries(filepath.Join(s.folder, trialsFolder), "trial-")
	if err != nil {
		return err
	}
	for _, trial := range trials {
		folder := filepath.Join(s.folder, trialsFolder, trial)
		steps, err := entries(folder, "step-")
		if err != nil {
			return err
		}
		for _, name := range steps {
			if path := filepath.Join(folder, name); !known[path] && isCheckpoint(name) {
				if err := os.RemoveAll(path); err != nil {
					return fmt.Errorf("tune: remove a checkpoint that is not in the log: %w", err)
				}
			}
		}
	}
	return nil
}

// isCheckpoint says whether a name is one of those that checkpoints have, whole or not.
func isCheckpoint(name string) bool {
	name, _ = strings.CutSuffix(name, vfs.TempSuffix)
	var k keptStep
	_, err := fmt.Sscanf(name, "step-%d.%d", &k.step, &k.attempt)
	return err == nil && k.step >= 0 && name == filepath.Base(k.folder()) // all of the name, as it is written
}
