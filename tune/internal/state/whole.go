package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/checkpoint"
)

// copies is how often Whole lets a folder be copied whose newest checkpoint is removed meanwhile.
const copies = 3

// maxWorkers bounds the workers of a manifest.
const maxWorkers = 1 << 24

// A missingError says which file a checkpoint lacks.
type missingError struct {
	steps uint64
	file  string
}

func (e *missingError) Error() string {
	return fmt.Sprintf("the job's checkpoint after %d steps is not whole: %s is not there", e.steps, e.file)
}

// Whole lets copy fill a folder with one in which a job may keep checkpoints (package checkpoint).
// A job that makes newer ones removes the oldest at any time, in the middle of the copy, too: then
// it is made anew. An error after some tries: nobody could go on from the copy.
func Whole(to string, copy func() error) error {
	before, err := os.ReadDir(to)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		if err := copy(); err != nil {
			return err
		}
		err := Check(to, false)
		if _, missing := errors.AsType[*missingError](err); !missing || try == copies {
			return err
		}
		if err := empty(to, before); err != nil {
			return err
		}
	}
}

// empty removes what is in a folder, but for these entries.
func empty(dir string, but []fs.DirEntry) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.ContainsFunc(but, func(x fs.DirEntry) bool { return x.Name() == e.Name() }) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Check checks that the newest complete checkpoint of a job (package checkpoint) in each place
// below dir has the files that it names, and with all the files of all workers: they were removed
// if newer checkpoints were made while it was copied. Older ones that lack some are no longer
// complete: nobody can go on from them.
func Check(dir string, all bool) error {
	var places []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == checkpoint.ManifestFile && !d.IsDir() {
			places = append(places, filepath.Dir(filepath.Dir(name)))
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(places)
	for _, place := range slices.Compact(places) {
		// The file is another program's, and in no folder of its own.
		if !strings.HasPrefix(place, dir) {
			continue
		}
		if err := wholeIn(place, all); err != nil {
			return err
		}
	}
	return nil
}

// wholeIn says what the newest checkpoint in a folder lacks, of those that have a manifest. An
// older one that lacks something loses its manifest: nobody is to go on from it.
func wholeIn(dir string, all bool) error {
	place := checkpoint.Folder(dir)
	defer place.Close()
	steps, err := checkpoint.ListSaved(context.Background(), place)
	if err != nil {
		return err
	}
	steps = slices.DeleteFunc(steps, func(s checkpoint.Saved) bool { return !s.Complete() })
	for i, s := range steps {
		missing, err := missingFile(place, &s, all)
		switch {
		case err != nil:
			return err
		case missing == "":
		case i == len(steps)-1:
			return &missingError{s.Steps, missing}
		default:
			if err := os.Remove(filepath.Join(dir, filepath.FromSlash(s.Name(checkpoint.ManifestFile)))); err != nil {
				return err
			}
		}
	}
	return nil
}

// missingFile is a file that the job's checkpoint should have and has not; "": none.
func missingFile(place checkpoint.Place, s *checkpoint.Saved, all bool) (string, error) {
	var m struct {
		Workers int `json:"workers"`
		checkpoint.Manifest
	}
	own, err := s.ReadManifest(context.Background(), place, &m)
	if err != nil {
		return "", err
	}
	has := make(map[string]bool)
	for _, name := range s.Files {
		has[path.Base(name)] = true
	}
	for _, f := range own.Files {
		if !has[f.Name] {
			return f.Name, nil
		}
	}
	if !all {
		return "", nil
	}
	for rank := range min(m.Workers, maxWorkers) {
		if name := checkpoint.WorkerFile(rank); !has[name] {
			return name, nil
		}
	}
	return "", nil
}
