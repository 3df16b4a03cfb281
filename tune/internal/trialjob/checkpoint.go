package trialjob

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/tune/internal/checkpoints"
	"github.com/paragon-train/paragon/tune/internal/remote"
	"github.com/paragon-train/paragon/tune/internal/state"
)

// A commandState is the folder in which a command keeps its state. The zero one is that of a
// command without, or of a program that saves its checkpoints itself.
type commandState struct {
	// dir is the folder on this machine; "": there is none.
	dir string
	// seen is what the folder had when it was last saved.
	seen string
	// carried says that the folder is on the workers' hosts, where package carry makes and
	// copies it.
	carried bool
}

// word is what the command's words have for the folder.
func (c *commandState) word() string {
	if c.carried {
		return remote.CommandFolder
	}
	return c.dir
}

// openState makes the folder of the command's state, with the files of the checkpoint that the
// attempt goes on from.
func (t *trial) openState() error {
	if !t.settings.Checkpoints {
		return nil
	}
	if t.settings.Place == Hosts {
		if t.elastic() {
			return errors.New("tune: Jobs.Checkpoints is set, and the study's scheduler makes trials elastic, which keep their state themselves: leave out one of them")
		}
		t.state.carried = true
		return nil
	}
	from := ""
	if t.Restore != nil {
		from = t.Restore.Dir
	}
	var err error
	if t.state, err = newState(filepath.Join(t.folder, "checkpoint"), from); err != nil {
		return fmt.Errorf("tune: trial %d: make the folder of its checkpoint: %w", t.Trial, err)
	}
	return nil
}

// newState makes a folder with the files of a checkpoint; from "": with none.
func newState(dir, from string) (c commandState, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return c, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return c, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return c, err
	}
	if from != "" {
		if err := state.Copy(dir, from); err != nil {
			return c, err
		}
		if err := os.Remove(filepath.Join(dir, checkpoints.SumsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return c, err
		}
	}
	seen, err := state.List(dir)
	return commandState{dir: dir, seen: seen}, err
}

// saveState keeps what the folder has as the checkpoint of a step that is about to be reported, if
// that is something new. If the search only asks the attempt to return, the answer to the report
// says so, too.
func (t *trial) saveState(step int) error {
	c := &t.state
	if c.dir == "" {
		return nil
	}
	has, err := state.List(c.dir)
	if err != nil || has == "" || has == c.seen {
		return err
	}
	err = t.Search.Checkpoint(step, func(dir string) error {
		return state.Whole(dir, func() error { return state.Copy(dir, c.dir) })
	})
	if err != nil && t.Search.Asks(err) {
		return nil
	}
	c.seen = has
	return err
}
