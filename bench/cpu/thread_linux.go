package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime tells what the calling thread has spent on a core; nil where the system does not say.
func threadTime() func() time.Duration {
	read := func() time.Duration {
		var ts unix.Timespec
		if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
			return 0
		}
		return time.Duration(ts.Nano())
	}
	if read() == 0 {
		return nil
	}
	return read
}
