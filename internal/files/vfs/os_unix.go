//go:build !windows

package vfs

import (
	"errors"
	"os"
	"syscall"
)

// Rename implements FS.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// SyncDir implements FS.
func (OS) SyncDir(dir string) error { return SyncFile(dir) }

// SyncFile makes what was written to the file survive a crash.
func SyncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// Full reports whether an error says that the disk is full, or the user's part of it.
func Full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
