package checkpoints

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/paragon-train/paragon/internal/files/scratch"
	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// A Folder is where the checkpoints of a study are, with those that are not in its log:
// staged ones, which are not there yet, and doomed ones, which no longer are. The study's mutex
// guards it.
//
// A checkpoint is staged when it is saved, and in the log with the report of its step. It is doomed
// when the log has its removal, and its folder goes once that is on the disk. So a study that is
// killed at any time finds each checkpoint of its log whole.
type Folder struct {
	// root is the study's folder; "": there is none yet.
	root string
	// temp is root if it is to be removed with the study; nil: it stays.
	temp *scratch.Folder
	// staged has checkpoints of steps that were not reported yet, by trial.
	staged map[int]Saved
	// saving has a mutex for each trial, which is held while a checkpoint of it is saved.
	saving map[int]*sync.Mutex
	doomed []Doomed
}

// A Doomed folder is removed once event seq is on the disk.
type Doomed struct {
	Seq  uint64
	Path string
}

// Use takes the study's folder. It is made absolute, since processes of trials run in other
// folders.
func (f *Folder) Use(dir string) (err error) {
	if f.root, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("tune: folder of the study: %w", err)
	}
	return nil
}

// Make makes the folder, a temporary one if the study keeps none.
func (f *Folder) Make() (string, error) {
	if f.root == "" {
		temp, err := scratch.New("study")
		if err != nil {
			return "", fmt.Errorf("tune: make a folder for checkpoints: %w", err)
		}
		f.root, f.temp = temp.Path, temp
	}
	return f.root, nil
}

// Path is the path of a checkpoint.
func (f *Folder) Path(k Name) string { return filepath.Join(f.root, k.folder()) }

// Alone is the mutex that is held while a checkpoint of a trial is saved.
func (f *Folder) Alone(trial int) *sync.Mutex {
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

// Ended takes note that an attempt of a trial has ended: only one that was given up still saves.
func (f *Folder) Ended(trial int) { delete(f.saving, trial) }

// Stage keeps a checkpoint until its step is reported.
func (f *Folder) Stage(c Saved) {
	if f.staged == nil {
		f.staged = make(map[int]Saved)
	}
	f.staged[c.Name.Trial] = c
}

// Unstage takes the checkpoint of a trial that is staged, if any.
func (f *Folder) Unstage(trial int) (c Saved, ok bool) {
	c, ok = f.staged[trial]
	delete(f.staged, trial)
	return c, ok
}

// IsStaged says whether a checkpoint is staged.
func (f *Folder) IsStaged(k Name) bool {
	c, ok := f.staged[k.Trial]
	return ok && c.Name == k
}

// Doom has the folder of a checkpoint removed once event seq is on the disk.
func (f *Folder) Doom(k Name, seq uint64) {
	f.doomed = append(f.doomed, Doomed{seq, f.Path(k)})
}

// Due takes the folders to remove now that the events before number done are on the disk.
func (f *Folder) Due(done uint64) []Doomed {
	n := 0
	for n < len(f.doomed) && f.doomed[n].Seq < done {
		n++
	}
	due := f.doomed[:n:n]
	f.doomed = f.doomed[n:]
	return due
}

// Unknown are the folders of checkpoints that are not among the known paths: what a crash has left.
func (f *Folder) Unknown(known map[string]bool) (paths []string, err error) {
	trials, err := studydir.Entries(filepath.Join(f.root, studydir.TrialsFolder), studydir.TrialPrefix)
	if err != nil {
		return nil, err
	}
	for _, trial := range trials {
		folder := filepath.Join(f.root, studydir.TrialsFolder, trial)
		steps, err := studydir.Entries(folder, "step-")
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

// Close removes a temporary folder.
func (f *Folder) Close() error {
	if f.temp == nil {
		return nil
	}
	return f.temp.Remove()
}

// RemoveAll removes folders.
func RemoveAll(paths []string) (err error) {
	for _, path := range paths {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}
