package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of its children's children when these lose theirs: the
// bridge of a Python worker ends behind it, and its time counts.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// reap waits for those that are left, not for long. No child of os/exec may run.
func reap() {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case err != nil && err != unix.EINTR: //nolint:errorlint // it is a number of the system
			return
		case pid == 0:
			time.Sleep(time.Millisecond)
		}
	}
}
