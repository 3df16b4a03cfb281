// Package record keeps, for every job that runs on this machine, a file by which other commands find it.
//
// The file holds the job's secret, so only its user can read it, and no command line ever shows one. The launcher holds a lock on
// it as long as it lives: a record without one is what a killed launcher left, and is removed by whoever meets it.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/lockfile"
)

// A Record says where a job is.
type Record struct {
	Job       string    `json:"job"`
	Scheduler string    `json:"scheduler"` // host:port
	PID       int       `json:"pid"`       // of the launcher
	Dir       string    `json:"dir"`       // in which it was started
	Command   []string  `json:"command"`   // of the workers
	Started   time.Time `json:"started"`
	// Credentials are the variables by which one is known to the job's nodes: NAME=VALUE.
	Credentials []string `json:"credentials"`
}

// Dir is the folder of the records: paragon/jobs in $XDG_RUNTIME_DIR, else ~/.paragon/jobs.
func Dir(getenv func(string) string) (string, error) {
	if run := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(run) {
		if info, err := os.Stat(run); err == nil && info.IsDir() {
			return filepath.Join(run, "paragon", "jobs"), nil
		}
	}
	home := getenv("HOME")
	if home == "" {
		return "", errors.New("launch: no folder for the records of jobs: neither XDG_RUNTIME_DIR nor HOME is set")
	}
	return filepath.Join(home, ".paragon", "jobs"), nil
}

// A File is the record of a job of this process.
type File struct {
	f    *os.File
	path string
}

const suffix = ".json"

// Write makes the record in dir, for this user alone.
func Write(dir string, r Record) (*File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("launch: record of job %s: %w", r.Job, err)
	}
	path := filepath.Join(dir, r.Job+suffix)
	draft := path + ".new" // nobody looks at it before it is locked and whole
	f, err := os.OpenFile(draft, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("launch: record of job %s: %w", r.Job, err)
	}
	err = lockfile.Take(f)
	if err == nil {
		var b []byte
		if b, err = json.MarshalIndent(r, "", "\t"); err == nil {
			_, err = f.Write(append(b, '\n'))
		}
	}
	if err == nil {
		err = os.Rename(draft, path)
	}
	if err != nil {
		return nil, fmt.Errorf("launch: record of job %s: %w", r.Job, errors.Join(err, f.Close(), os.Remove(draft)))
	}
	return &File{f, path}, nil
}

// Remove takes the record away: the job is over.
func (f *File) Remove() error { return errors.Join(os.Remove(f.path), f.f.Close()) }

// All are the jobs that run, oldest first.
func All(dir string) ([]Record, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("launch: look for jobs: %w", err)
	}
	var all []Record
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		if r, ok := read(filepath.Join(dir, e.Name())); ok {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b Record) int { return a.Started.Compare(b.Started) })
	return all, nil
}

// read reads the record of a living job.
func read(path string) (r Record, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return r, false // it has just ended, or is another user's
	}
	defer f.Close()
	if err := lockfile.Take(f); err == nil {
		os.Remove(path) // whoever wrote it was killed
		return r, false
	}
	return r, json.NewDecoder(f).Decode(&r) == nil && r.Job != ""
}

// ErrNone is in the chain of Find's error when no job runs.
var ErrNone = errors.New("no job of yours runs on this machine")

// Find returns the job whose ID begins with id; with an empty id the only one that runs, or of several the only one that was started in the
// folder here.
func Find(dir, id, here string) (Record, error) {
	all, err := All(dir)
	if err != nil {
		return Record{}, err
	}
	var fit []Record
	for _, r := range all {
		if strings.HasPrefix(r.Job, id) {
			fit = append(fit, r)
		}
	}
	switch {
	case len(all) == 0:
		return Record{}, fmt.Errorf("launch: %w; run this where, and as whom, launch was started", ErrNone)
	case len(fit) == 1:
		return fit[0], nil
	case id == "" && here != "":
		if mine := slices.DeleteFunc(slices.Clone(fit), func(r Record) bool { return !sameFolder(r.Dir, here) }); len(mine) == 1 {
			return mine[0], nil
		}
	}
	var b strings.Builder
	if len(fit) > 0 {
		all = fit
	}
	for _, r := range all {
		fmt.Fprintf(&b, "\n  --job %s  since %s in %s: %s", r.Job, r.Started.Format(time.DateTime), r.Dir, strings.Join(r.Command, " "))
	}
	if len(fit) == 0 {
		return Record{}, fmt.Errorf("launch: no job's ID begins with %q; there are:%s", id, &b)
	}
	if id != "" {
		return Record{}, fmt.Errorf("launch: the IDs of %d jobs begin with %q; say which:%s", len(all), id, &b)
	}
	return Record{}, fmt.Errorf("launch: %d jobs run on this machine, and not exactly one was started in this folder; say which:%s", len(all), &b)
}

func sameFolder(a, b string) bool {
	if a == "" || filepath.Clean(a) == filepath.Clean(b) {
		return a != ""
	}
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
