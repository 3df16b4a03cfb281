package checkpoints

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

// Write makes a folder atomically, also with regard to a crash, and returns its size in
// bytes. write fills the folder that it is given. sync says that all is to be on the disk before
// the folder has its name.
func Write(path string, write func(dir string) error, sync bool) (int64, error) {
	temp := path + vfs.TempSuffix
	if err := os.RemoveAll(temp); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(temp, 0o777); err != nil {
		return 0, err
	}
	err := write(temp)
	var bytes int64
	if err == nil {
		bytes, err = syncTree(temp, sync)
	}
	if err == nil {
		err = writeSums(temp, sync)
	}
	if err == nil {
		// A crash may have left a folder of this name.
		if err = os.RemoveAll(path); err == nil {
			err = os.Rename(temp, path)
		}
	}
	if err == nil && sync {
		// Only then is the folder's new name on the disk, too.
		err = vfs.OS{}.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return 0, errors.Join(err, os.RemoveAll(temp))
	}
	return bytes, nil
}

// syncTree syncs all files and folders if it is to, and adds up the bytes of the files.
func syncTree(root string, sync bool) (int64, error) {
	var bytes int64
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case info.Mode().IsRegular():
			bytes += info.Size()
		case !d.IsDir():
			return nil
		}
		switch {
		case !sync:
			return nil
		case d.IsDir():
			return vfs.OS{}.SyncDir(path)
		}
		return vfs.SyncFile(path)
	})
	return bytes, err
}
