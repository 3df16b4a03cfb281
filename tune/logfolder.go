package tune

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/paragon-train/paragon/internal/files/lockfile"
	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/internal/observe/plural"
)

// A logFolder is the folder of a study with its log, which one process uses at a time.
type logFolder struct {
	fsys vfs.FS
	dir  string
	// lock is held while the study is open; nil: it is not locked.
	lock *os.File
}

// path is the log's.
func (f *logFolder) path() string { return filepath.Join(f.dir, logName) }

// real says whether files are on the machine's disk, and not simulated by a test.
func real(fsys vfs.FS) bool {
	_, ok := fsys.(vfs.OS)
	return ok
}

// open makes the folder, and locks it.
func (f *logFolder) open() error {
	if err := f.fsys.MkdirAll(f.dir); err != nil {
		return fmt.Errorf("tune: make folder of the study: %w", err)
	}
	return f.take()
}

// take keeps other processes out of the folder.
func (f *logFolder) take() error {
	if !real(f.fsys) {
		return nil
	}
	path := filepath.Join(f.dir, "lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return fmt.Errorf("tune: lock: %w", err)
	}
	if err := lockfile.Take(file); err != nil {
		_ = file.Close()
		if errors.Is(err, lockfile.ErrTaken) {
			return fmt.Errorf("tune: %s: %w", path, ErrLocked)
		}
		return fmt.Errorf("tune: lock: %w", err)
	}
	f.lock = file
	return nil
}

// release lets other processes into the folder.
func (f *logFolder) release() {
	if f.lock != nil {
		_ = f.lock.Close()
		f.lock = nil
	}
}

// noTrials is an error if the folder has trials already: a search without a log would mix its
// trials with them.
func (f *logFolder) noTrials(why string) error {
	found, err := entries(filepath.Join(f.dir, trialsFolder), "trial-")
	if err != nil || len(found) == 0 {
		return err
	}
	return fmt.Errorf("tune: %s: %s, and the folders of %s are there, such as %s: put the log back from a copy, or move the folder away to begin anew",
		f.path(), why, plural.Of(len(found), "trial"), found[0])
}

// noLaterTrials is an error if the folder has trials that are not in the log. A trial's folder is
// made only once its start is on the disk, so the log has lost more than a crash can take.
func (f *logFolder) noLaterTrials(end logEnd, trials int) error {
	found, err := entries(filepath.Join(f.dir, trialsFolder), "trial-")
	if err != nil {
		return err
	}
	for _, name := range found {
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "trial-")); err == nil && n >= trials {
			return fmt.Errorf("tune: log %s line %d and all after it, %d bytes, are damaged: %w; the log ends before %s, whose folder is there; %s, or cut it after its first %d bytes to go on without what follows",
				f.path(), end.Lines+1, end.Torn, end.Why, trialName(n), fromACopy, end.Bytes)
		}
	}
	return nil
}

// entries are the names in a folder that begin with a prefix; none if it is no folder.
// filepath.Glob would take a bracket in the folder's path for a part of the pattern.
func entries(folder, prefix string) (names []string, err error) {
	all, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	for _, e := range all {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// keepTail copies what the log has from byte from on into a file beside it, and returns its path. A
// file that is there is not replaced.
func (f *logFolder) keepTail(from int64) (string, error) {
	path := f.path()
	log, err := f.fsys.Open(path)
	if err != nil {
		return "", err
	}
	defer log.Close()
	size, err := log.Size()
	if err != nil {
		return "", err
	}
	kept := fmt.Sprintf("%s.cut-%d", path, from)
	for n := 2; ; n++ {
		old, err := f.fsys.Open(kept)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return "", err
		}
		_ = old.Close()
		kept = fmt.Sprintf("%s.cut-%d.%d", path, from, n)
	}
	return kept, vfs.WriteFile(f.fsys, kept, func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(log, from, size-from))
		return err
	})
}
