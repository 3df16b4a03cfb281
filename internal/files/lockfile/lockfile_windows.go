package lockfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// How lock locks: flags of LockFileEx, which waits unless it is told not to.
const (
	shared    = 0
	exclusive = windows.LOCKFILE_EXCLUSIVE_LOCK
	wait      = 1 << 16
)

// lock locks one byte far behind the end of any file: Windows keeps other processes from reading
// and writing what is locked, and they read these files.
func lock(f *os.File, how uint32) error {
	if how&wait == 0 {
		how |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	place := windows.Overlapped{Offset: 0, OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how&^wait, 0, 1, 0, &place)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return ErrTaken
	}
	return fmt.Errorf("lockfile: lock %s: %w", f.Name(), err)
}

// create creates or empties the file. A link in its place is an error.
func create(path string) (*os.File, error) {
	f, err := open(path, windows.OPEN_ALWAYS)
	if err == nil {
		if err = f.Truncate(0); err != nil {
			f.Close()
		}
	}
	return f, err
}

// Open opens the file at path for Free. A link in its place is an error.
func Open(path string) (*os.File, error) { return open(path, windows.OPEN_EXISTING) }

// open opens a file that others may rename or remove meanwhile, as on Unix: os.OpenFile does not
// allow that here.
func open(path string, how uint32) (*os.File, error) {
	failed := func(err error) (*os.File, error) { return nil, &fs.PathError{Op: "open", Path: path, Err: err} }
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return failed(err)
	}
	h, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, how,
		windows.FILE_ATTRIBUTE_NORMAL|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return failed(err)
	}
	f := os.NewFile(uintptr(h), path)
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		f.Close()
		return failed(err)
	}
	return f, nil
}
