package dialin

import (
	"os"

	"golang.org/x/sys/unix"
)

// readOnly reports whether the file system of f is mounted read-only.
func readOnly(f *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &st) == nil && st.Flags&unix.ST_RDONLY != 0
}
