package tune

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/paragon-train/paragon/internal/files/scratch"
)

// A checkpointFolder is where the checkpoints of a study are, with those that are not in its log:
// staged ones, which are not there yet, and doomed ones, which no longer are. The study's mutex
// guards it.
//
// A checkpoint is staged when it is saved, and in the log with the report of its step. It is doomed
// when the log has its removal, and its folder goes once that is on the disk. So a study that is
// killed at any time finds each checkpoint of its log whole.
type checkpointFolder struct {
	// root is the study's folder; "": there is none yet.
	root string
	// temp is root if it is to be removed with the study; nil: it stays.
	temp *scratch.Folder
	// staged has checkpoints of steps that were not reported yet, by trial.
	staged map[int]keptBytes
	// saving has a mutex for each trial, which is held while a checkpoint of it is saved.
	saving map[int]*sync.Mutex
	doomed []doomed
}

// A doomed folder is removed once event seq is on the disk.
type doomed struct {
	seq  uint64
	path string
}

// use takes the study's folder. It is made absolute, since processes of trials run in other
// folders.
func (f *checkpointFolder) use(dir string) (err error) {
	if f.root, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("tune: folder of the study: %w", err)
	}
	return nil
}

// make makes the folder, a temporary one if the study keeps none.
func (f *checkpointFolder) make() (string, error) {
	if f.root == "" {
		temp, err := scratch.New("study")
		if err != nil {
			return "", fmt.Errorf("tune: make a folder for checkpoints: %w", err)
		}
		f.root, f.temp = temp.Path, temp
	}
	return f.root, nil
}

// path is that of a checkpoint.
func (f *checkpointFolder) path(k keptStep) string { return filepath.Join(f.root, k.folder()) }

// alone is the mutex that is held while a checkpoint of a trial is saved.
func (f *checkpointFolder) alone(trial int) *sync.Mutex {
	m := f.saving[trial]
	if m == nil {
		m = &sync.Mutex{}
		if f.saving == nil {
			f.saving = make(map[int]*sync.Mutex)
		}
		f.saving[trial] = m
	}
	return m
}

// ended takes note that an attempt of a trial has ended: only one that was given up still saves.
func (f *checkpointFolder) ended(trial int) { delete(f.saving, trial) }

// stage keeps a checkpoint until its step is reported.
func (f *checkpointFolder) stage(c keptBytes) {
	if f.staged == nil {
		f.staged = make(map[int]keptBytes)
	}
	f.staged[c.trial] = c
}

// unstage takes the checkpoint of a trial that is staged, if any.
func (f *checkpointFolder) unstage(trial int) (c keptBytes, ok bool) {
	c, ok = f.staged[trial]
	delete(f.staged, trial)
	return c, ok
}

// isStaged says whether a checkpoint is staged.
func (f *checkpointFolder) isStaged(k keptStep) bool {
	c, ok := f.staged[k.trial]
	return ok && c.keptStep == k
}

// doom has the folder of a checkpoint removed once event seq is on the disk.
func (f *checkpointFolder) doom(k keptStep, seq uint64) {
	f.doomed = append(f.doomed, doomed{seq, f.path(k)})
}

// due takes the folders to remove now that the events before number done are on the disk.
func (f *checkpointFolder) due(done uint64) []doomed {
	n := 0
	for n < len(f.doomed) && f.doomed[n].seq < done {
		n++
	}
	due := f.doomed[:n:n]
	f.doomed = f.doomed[n:]
	return due
}

// unknown are the folders of checkpoints that are not among the known paths: what a crash has left.
func (f *checkpointFolder) unknown(known map[string]bool) (paths []string, err error) {
	trials, err := entries(filepath.Join(f.root, trialsFolder), "trial-")
	if err != nil {
		return nil, err
	}
	for _, trial := range trials {
		folder := filepath.Join(f.root, trialsFolder, trial)
		steps, err := entries(folder, "step-")
		if err != nil {
			return nil, err
		}
		for _, name := range steps {
			if path := filepath.Join(folder, name); !known[path] && isCheckpoint(name) {
				paths = append(paths, path)
			}
		}
	}
	return paths, nil
}

// close removes a temporary folder.
func (f *checkpointFolder) close() error {
	if f.temp == nil {
		return nil
	}
	return f.temp.Remove()
}

// removeAll removes folders.
func removeAll(paths []string) (err error) {
	for _, path := range paths {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}
