package tune

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A commandCheckpoint is the folder in which a command keeps its state (Jobs.Checkpoints).
type commandCheckpoint struct {
	dir  string
	seen string // what the folder had when it was last saved
}

// openCheckpoint makes the attempt's folder, with the files of the checkpoint that it goes on from.
func (t *jobTrial) openCheckpoint() error {
	if !t.jobs.Checkpoints {
		return nil
	}
	if t.jobs.HostFile != "" {
		return errors.New("tune: Jobs.Checkpoints is for trials on this machine: leave it out, or Jobs.HostFile")
	}
	dir, err := filepath.Abs(filepath.Join(t.folder, "checkpoint"))
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err == nil {
		err = os.MkdirAll(dir, 0o777)
	}
	if from, _, ok := t.reporter.Restore(); ok && err == nil {
		if err = copyFiles(dir, from); err == nil {
			if err = os.Remove(filepath.Join(dir, sumsFile)); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
	}
	if err != nil {
		return fmt.Errorf("tune: trial %d: make the folder of its checkpoint: %w", t.attempt.Trial, err)
	}
	t.attempt.Checkpoint = dir
	t.checkpoint = &commandCheckpoint{dir: dir}
	t.checkpoint.seen, err = listing(dir)
	return err
}

// saveCheckpoint keeps what the folder has as the checkpoint of a step that is about to be reported, if that is something new.
func (t *jobTrial) saveCheckpoint(step int) error {
	c := t.checkpoint
	if c == nil {
		return nil
	}
	has, err := listing(c.dir)
	if err != nil || has == "" || has == c.seen {
		return err
	}
	err = t.reporter.Checkpoint(step, func(dir string) error { return copyFiles(dir, c.dir) })
	if errors.Is(err, ErrStop) || errors.Is(err, ErrPause) { // the report's answer says so, too
		return nil
	}
	c.seen = has
	return err
}

// listing names the files below dir, with their sizes and times.
func listing(dir string) (string, error) {
	var b []byte
	err := walkFiles(dir, func(path string, info fs.FileInfo) error {
		b = fmt.Appendf(b, "%q %d %d\n", path, info.Size(), info.ModTime().UnixNano())
		return nil
	})
	return string(b), err
}

// copyFiles copies the regular files below from. One that goes away meanwhile is left out: a program that writes a file under another name and renames it
// may do so at any time.
func copyFiles(to, from string) error {
	return walkFiles(from, func(path string, info fs.FileInfo) error {
		r, err := os.Open(filepath.Join(from, path))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer r.Close()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, path)), 0o777); err != nil {
			return err
		}
		w, err := os.OpenFile(filepath.Join(to, path), os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm()|0o200)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, r)
		return errors.Join(err, w.Close())
	})
}

// walkFiles calls f for the regular files below dir, with their paths in it.
func walkFiles(dir string, f func(path string, info fs.FileInfo) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil && d.Type().IsRegular() {
			info, err = d.Info()
		}
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil
		}
		if err != nil || info == nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return f(rel, info)
	})
}
