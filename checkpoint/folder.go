package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/internal/vfs"
)

// ErrNone is what Latest returns for a folder without checkpoints.
var ErrNone = errors.New("checkpoint: folder has no checkpoint")

// A Folder keeps the checkpoints of one run, each a safetensors file named for
// its step: step-000000001000.safetensors. Other files are left alone. One
// process at a time may Save to a folder.
type Folder struct {
	fsys vfs.FS
	dir  string
	keep int
}

// OpenFolder returns the folder, which it makes if needed. Save keeps the last
// keep checkpoints; zero keeps all.
func OpenFolder(dir string, keep int) (*Folder, error) { return openFolder(vfs.OS{}, dir, keep) }

func openFolder(fsys vfs.FS, dir string, keep int) (*Folder, error) {
	if keep < 0 {
		return nil, fmt.Errorf("checkpoint: folder %s: got %d checkpoints to keep, want at least 0", dir, keep)
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("checkpoint: folder %s: %w", dir, err)
	}
	return &Folder{fsys: fsys, dir: dir, keep: keep}, nil
}

const (
	stepPrefix = "step-"
	stepSuffix = ".safetensors"
)

// Path returns the path of the checkpoint of a step.
func (d *Folder) Path(step uint64) string {
	return filepath.Join(d.dir, fmt.Sprintf("%s%012d%s", stepPrefix, step, stepSuffix))
}

// Save writes the checkpoint of a step and, when it is safe, removes those
// that are no longer kept: those of the lowest steps, but never the new one.
func (d *Folder) Save(step uint64, metadata map[string]string, tensors []Tensor) error {
	if err := save(d.fsys, d.Path(step), metadata, tensors); err != nil {
		return err
	}
	names, err := d.fsys.List(d.dir)
	if err != nil {
		return fmt.Errorf("checkpoint: folder %s: %w", d.dir, err)
	}
	for _, name := range names { // what a crash left
		if whole, ok := strings.CutSuffix(name, vfs.TempSuffix); ok {
			if _, ok := stepOf(whole); ok {
				if err := d.remove(name); err != nil {
					return err
				}
			}
		}
	}
	steps, err := d.Steps()
	if err != nil || d.keep == 0 {
		return err
	}
	for _, s := range steps[:max(0, len(steps)-d.keep)] {
		if s == step {
			continue
		}
		if err := d.remove(filepath.Base(d.Path(s))); err != nil {
			return err
		}
	}
	return nil
}

func (d *Folder) remove(name string) error {
	err := d.fsys.Remove(filepath.Join(d.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checkpoint: folder %s: remove an old one: %w", d.dir, err)
	}
	return nil
}

// RemoveAfter removes the checkpoints of all steps above step. A run that goes
// back to an earlier checkpoint calls it, or Latest would go on finding what it
// left behind.
func (d *Folder) RemoveAfter(step uint64) error {
	steps, err := d.Steps()
	if err != nil {
		return err
	}
	for _, s := range slices.Backward(steps) {
		if s <= step {
			break
		}
		if err := d.remove(filepath.Base(d.Path(s))); err != nil {
			return err
		}
	}
	if err := d.fsys.SyncDir(d.dir); err != nil {
		return fmt.Errorf("checkpoint: folder %s: %w", d.dir, err)
	}
	return nil
}

// Steps returns the steps that have a checkpoint, rising.
func (d *Folder) Steps() ([]uint64, error) {
	names, err := d.fsys.List(d.dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: folder %s: %w", d.dir, err)
	}
	var steps []uint64
	for _, name := range names {
		if step, ok := stepOf(name); ok {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	return steps, nil
}

// stepOf returns the step that a file is named for.
func stepOf(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, stepPrefix)
	if !ok {
		return 0, false
	}
	if digits, ok = strings.CutSuffix(digits, stepSuffix); !ok {
		return 0, false
	}
	step, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || fmt.Sprintf("%012d", step) != digits {
		return 0, false
	}
	return step, true
}

// Latest opens the checkpoint of the highest step, or returns ErrNone. One
// that is damaged is an error that answers errors.Is(err, ErrDamaged); what to
// do then (go back to an earlier one of Steps, or stop) is for the caller to
// say.
func (d *Folder) Latest() (f *File, step uint64, err error) {
	steps, err := d.Steps()
	if err != nil {
		return nil, 0, err
	}
	if len(steps) == 0 {
		return nil, 0, fmt.Errorf("%w: %s", ErrNone, d.dir)
	}
	step = steps[len(steps)-1]
	f, err = d.Open(step)
	return f, step, err
}

// Open opens the checkpoint of a step.
func (d *Folder) Open(step uint64) (*File, error) { return open(d.fsys, d.Path(step)) }
