package tune

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/tune/internal/remote"
	"github.com/paragon-train/paragon/tune/internal/state"
)

// A commandCheckpoint is the folder in which a command keeps its state (Jobs.Checkpoints).
type commandCheckpoint struct {
	dir  string
	seen string // what the folder had when it was last saved
}

// openCheckpoint makes the attempt's folder, with the files of the checkpoint that it goes on from.
// On another host that is done by package carry.
func (t *jobTrial) openCheckpoint() error {
	if !t.jobs.Checkpoints {
		return nil
	}
	if t.jobs.HostFile != "" {
		if t.elastic != nil {
			return errors.New("tune: Jobs.Checkpoints is set, and the study's scheduler makes trials elastic, which keep their state themselves: leave out one of them")
		}
		t.attempt.Checkpoint, t.carried = remote.CommandFolder, true
		return nil
	}
	dir, err := filepath.Abs(filepath.Join(t.folder, "checkpoint"))
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err == nil {
		err = os.MkdirAll(dir, 0o777)
	}
	if from, _, ok := t.reporter.Restore(); ok && err == nil {
		if err = state.Copy(dir, from); err == nil {
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
	t.checkpoint.seen, err = state.List(dir)
	return err
}

// saveCheckpoint keeps what the folder has as the checkpoint of a step that is about to be
// reported, if that is something new.
func (t *jobTrial) saveCheckpoint(step int) error {
	c := t.checkpoint
	if c == nil {
		return nil
	}
	has, err := state.List(c.dir)
	if err != nil || has == "" || has == c.seen {
		return err
	}
	err = t.reporter.Checkpoint(step, func(dir string) error {
		return state.Whole(dir, func() error { return state.Copy(dir, c.dir) })
	})
	if errors.Is(err, ErrStop) || errors.Is(err, ErrPause) { // the report's answer says so, too
		return nil
	}
	c.seen = has
	return err
}
