package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// Rename implements FS. It returns when the new name is on the disk.
func (OS) Rename(from, to string) error {
	failed := func(err error) error { return &os.LinkError{Op: "rename", Old: from, New: to, Err: err} }
	old, err := windows.UTF16PtrFromString(from)
	if err != nil {
		return failed(err)
	}
	name, err := windows.UTF16PtrFromString(to)
	if err != nil {
		return failed(err)
	}
	if err := windows.MoveFileEx(old, name, windows.MOVEFILE_REPLACE_EXISTING|windows.MOVEFILE_WRITE_THROUGH); err != nil {
		return failed(err)
	}
	return nil
}

// SyncDir implements FS. A file system that does not flush folders has only what Rename wrote
// through.
func (OS) SyncDir(dir string) error {
	failed := func(err error) error { return &fs.PathError{Op: "sync", Path: dir, Err: err} }
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return failed(err)
	}
	h, err := windows.CreateFile(name, windows.GENERIC_WRITE, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil,
		windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return failed(err)
	}
	defer windows.CloseHandle(h)
	err = windows.FlushFileBuffers(h)
	if err == nil || errors.Is(err, windows.ERROR_INVALID_FUNCTION) || errors.Is(err, windows.ERROR_NOT_SUPPORTED) {
		return nil
	}
	return failed(err)
}

// SyncFile makes what was written to the file survive a crash. Windows flushes only files that are
// open for writing.
func SyncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Full reports whether an error says that the disk is full, or the user's part of it.
func Full(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) || errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED) ||
		errors.Is(err, ErrFull)
}
