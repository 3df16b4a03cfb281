//go:build unix

package objects

import "golang.org/x/sys/unix"

// maxOpenFiles is how many files a store keeps open: an eighth of what the process may, since
// sockets and other stores need theirs.
func maxOpenFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 32
	}
	return int(max(4, min(256, uint64(limit.Cur)/8))) //nolint:unconvert // signed on FreeBSD
}
