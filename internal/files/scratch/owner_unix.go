//go:build unix

package scratch

import (
	"io/fs"
	"os"
	"syscall"
)

// ours reports whether the folder is this user's and nobody else may read it.
func ours(_ string, info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid() && info.Mode().Perm() == 0o700
}

// removeEmpty removes the folder if nothing is in it.
func removeEmpty(path string) { _ = syscall.Rmdir(path) }
