// Package record keeps, for every job that runs on this machine, a file by which other commands
// find it.
//
// The job's secrets are not in this file. They are in an unnamed file in the launcher's memory that
// processes of the same user can open (Linux: memfd_create and /proc), so a killed launcher leaves
// no secret. On other systems they are in the record, which only its user can read. The launcher
// holds a lock on the record while it lives. A record without a lock was left by a killed launcher,
// and is removed by the next command that sees it, at the latest when the next job starts.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/files/lockfile"
)

// A Record says where a job is.
type Record struct {
	Job string `json:"job"`

	// Scheduler is the address of the job's scheduler, host:port.
	Scheduler string `json:"scheduler"`

	// PID is the launcher's process.
	PID int `json:"pid"`

	// Dir is the folder in which the launcher was started.
	Dir string `json:"dir"`

	// Command is what the workers run.
	Command []string `json:"command"`

	Started time.Time `json:"started"`

	// Host is this machine's name. Write sets it.
	Host string `json:"host"`
	// Memory is the path of the file in the launcher's memory with the Credentials; empty: they
	// are here. Write sets it.
	Memory string `json:"memory,omitempty"`
	// Credentials are the variables that authenticate a process to the job's nodes: NAME=VALUE.
	Credentials []string `json:"credentials,omitempty"`
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
		return "", errors.New("launch: no folder for the records of jobs: set XDG_RUNTIME_DIR or HOME")
	}
	return filepath.Join(home, ".paragon", "jobs"), nil
}

// A File is the record of a job of this process.
type File struct {
	f    *os.File
	path string

	// memory holds the credentials; nil: they are in the file itself.
	memory *os.File
}

const (
	suffix      = ".json"
	draftSuffix = ".new"
)

// Write makes the record in dir, for this user alone, and removes those that killed launchers left.
func Write(dir string, r Record) (*File, error) {
	failed := func(err error) error { return fmt.Errorf("launch: record of job %s: %w", r.Job, err) }
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, failed(err)
	}
	Sweep(dir)
	credentials, err := json.Marshal(memoryFile{r.Job, r.Credentials})
	if err != nil {
		return nil, failed(err)
	}
	file := &File{path: filepath.Join(dir, r.Job+suffix)}
	if file.memory, r.Memory = inMemory(credentials); file.memory != nil {
		r.Credentials = nil
	}
	r.Host = thisHost()

	// Nobody looks at a draft: the record gets its name when it is locked and whole.
	draft := filepath.Join(dir, r.Job+draftEnd())
	if file.f, err = lockfile.Create(draft); err != nil {
		return nil, failed(errors.Join(err, file.close()))
	}
	b, err := json.MarshalIndent(r, "", "\t")
	if err == nil {
		_, err = file.f.Write(append(b, '\n'))
	}
	if err == nil {
		err = os.Rename(draft, file.path)
	}
	if err != nil {
		return nil, failed(errors.Join(err, file.close(), os.Remove(draft)))
	}
	return file, nil
}

// A memoryFile is the content of the file in a launcher's memory.
type memoryFile struct {
	Job         string   `json:"job"`
	Credentials []string `json:"credentials"`
}

// thisHost identifies the host of a record: on a network file system locks of other hosts may be
// invisible.
func thisHost() string {
	host, _ := os.Hostname()
	return host
}

func draftEnd() string { return "." + url.PathEscape(thisHost()) + draftSuffix }

// Remove removes the record when the job is over.
func (f *File) Remove() error { return errors.Join(os.Remove(f.path), f.close()) }

func (f *File) close() (err error) {
	for _, file := range []*os.File{f.f, f.memory} {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
	}
	return err
}

// Open reads the credentials of a job of All or Find.
func (r *Record) Open() error {
	if r.Memory == "" {
		return nil
	}
	failed := func(err error) error {
		return fmt.Errorf("launch: job %s: read its credentials from its launcher (process %d on %s): %w; run this on the same machine and as the same user as launch",
			r.Job, r.PID, r.Host, err)
	}
	if r.Host != thisHost() {
		return failed(fmt.Errorf("this is %s", thisHost()))
	}
	b, err := os.ReadFile(r.Memory)
	if err != nil {
		return failed(err)
	}
	var k memoryFile

	// The process ID may name another process here, as in a container.
	if err := json.Unmarshal(b, &k); err != nil || k.Job != r.Job {
		return failed(errors.New("that process is not the launcher of the job"))
	}
	r.Credentials = k.Credentials
	return nil
}

// Sweep removes the records of killed launchers.
func Sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasSuffix(name, suffix):
			read(filepath.Join(dir, name))
		case strings.HasSuffix(name, draftEnd()):
			if f, err := os.Open(filepath.Join(dir, name)); err == nil {
				removeUnowned(f)
				f.Close()
			}
		}
	}
}

// removeUnowned removes the open file that nobody holds a lock on, and reports whether somebody
// does.
func removeUnowned(f *os.File) (owned bool) {
	if !lockfile.Free(f) {
		return true
	}
	if lockfile.At(f, f.Name()) {
		os.Remove(f.Name())
	}
	return false
}

// All returns the running jobs, oldest first.
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

// read reads the record of a running job, and removes the record of a killed launcher of this host.
func read(path string) (r Record, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		// The launcher has just ended, or the record belongs to another user.
		return r, false
	}
	defer f.Close()
	whole := json.NewDecoder(f).Decode(&r) == nil && r.Job != ""
	if whole && r.Host != "" && r.Host != thisHost() {
		return r, !lockfile.Free(f)
	}
	return r, removeUnowned(f) && whole
}

// ErrNone is in the chain of Find's error when no job runs.
var ErrNone = errors.New("no job of yours runs on this machine")

// Find returns the job whose ID begins with id. With an empty id it returns the only running job,
// or of several the only one that was started in the current folder.
func Find(dir, id, here string) (Record, error) { return find(dir, id, here, false) }

// FindToChange is Find for commands that change the job: without an id it finds only a job that was
// started in the current folder.
func FindToChange(dir, id, here string) (Record, error) { return find(dir, id, here, true) }

func find(dir, id, here string, change bool) (Record, error) {
	all, err := All(dir)
	if err != nil {
		return Record{}, err
	}
	if len(all) == 0 {
		return Record{}, fmt.Errorf("launch: %w; run this on the same machine and as the same user as launch, or name its launcher with --join (launch --listen)", ErrNone)
	}
	var fit, mine []Record
	for _, r := range all {
		if strings.HasPrefix(r.Job, id) {
			fit = append(fit, r)
			if here != "" && sameFolder(r.Dir, here) {
				mine = append(mine, r)
			}
		}
	}
	switch {
	case len(fit) == 1 && (id != "" || !change):
		return fit[0], nil
	case len(mine) == 1 && id == "":
		return mine[0], nil
	case len(fit) == 0:
		return Record{}, fmt.Errorf("launch: no job has an ID that begins with %q; the jobs are:%s", id, list(all))
	case id != "":
		return Record{}, fmt.Errorf("launch: the IDs of %d jobs begin with %q; give more of one:%s", len(fit), id, list(fit))
	case change && len(mine) == 0:
		return Record{}, fmt.Errorf("launch: no job was started in this folder; to change a job of another folder give its ID:%s", list(fit))
	}
	return Record{}, fmt.Errorf("launch: %d jobs run on this machine, and not exactly one of them was started in this folder; give the ID of one:%s", len(fit), list(fit))
}

// list writes jobs as the flags that name them.
func list(all []Record) string {
	var b strings.Builder
	for _, r := range all {
		fmt.Fprintf(&b, "\n  --job %s  since %s in %s: %s", r.Job, r.Started.Format(time.DateTime), r.Dir, strings.Join(r.Command, " "))
	}
	return b.String()
}

func sameFolder(a, b string) bool {
	if a == "" || filepath.Clean(a) == filepath.Clean(b) {
		return a != ""
	}
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
