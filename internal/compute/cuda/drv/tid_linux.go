package drv

import "golang.org/x/sys/unix"

// threadID returns the number of the OS thread that it is called on.
func threadID() int { return unix.Gettid() }
