package studydir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/internal/files/lockfile"
	"github.com/paragon-train/paragon/internal/files/vfs"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/tune/internal/logfile"
)

// ErrLocked says that another process runs a search in a folder.
var ErrLocked = errors.New("another process runs a search in the folder")

// A Folder is the folder of a study with its log, which one process uses at a time.
type Folder struct {
	fsys vfs.FS
	dir  string
	// lock is the file whose lock is held while the study is open; nil: none is.
	lock *os.File
}

// New is the folder dir of a study. It need not be there yet.
func New(fsys vfs.FS, dir string) Folder { return Folder{fsys: fsys, dir: dir} }

// FS is where the folder's files are.
func (f *Folder) FS() vfs.FS { return f.fsys }

// LogPath is the path of the log.
func (f *Folder) LogPath() string { return filepath.Join(f.dir, LogName) }

// Open makes the folder, and locks it.
func (f *Folder) Open() error {
	if err := f.fsys.MkdirAll(f.dir); err != nil {
		return fmt.Errorf("tune: make folder of the study: %w", err)
	}
	return f.take()
}

// take keeps other processes out of the folder.
func (f *Folder) take() error {
	if !OnDisk(f.fsys) {
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

// Release lets other processes into the folder.
func (f *Folder) Release() {
	if f.lock != nil {
		_ = f.lock.Close()
		f.lock = nil
	}
}

// NoTrials is an error if the folder has trials already: a search without a log would mix its
// trials with them.
func (f *Folder) NoTrials(why string) error {
	found, err := Entries(filepath.Join(f.dir, TrialsFolder), "trial-")
	if err != nil || len(found) == 0 {
		return err
	}
	return fmt.Errorf("tune: %s: %s, and the folders of %s are there, such as %s: put the log back from a copy, or move the folder away to begin anew",
		f.LogPath(), why, plural.Of(len(found), "trial"), found[0])
}

// NoLaterTrials is an error if the folder has trials that are not in the log. A trial's folder is
// made only once its start is on the disk, so the log has lost more than a crash can take.
func (f *Folder) NoLaterTrials(end logfile.End, trials int) error {
	found, err := Entries(filepath.Join(f.dir, TrialsFolder), "trial-")
	if err != nil {
		return err
	}
	for _, name := range found {
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "trial-")); err == nil && n >= trials {
			return fmt.Errorf("tune: log %s line %d and all after it, %d bytes, are damaged: %w; the log ends before %s, whose folder is there; %s, or cut it after its first %d bytes to go on without what follows",
				f.LogPath(), end.Lines+1, end.Torn, end.Why, TrialName(n), logfile.FromACopy, end.Bytes)
		}
	}
	return nil
}

// KeepTail copies what the log has from byte from on into a file beside it, and returns its path. A
// file that is there is not replaced.
func (f *Folder) KeepTail(from int64) (string, error) {
	path := f.LogPath()
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
