package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns a function for the time that the calling thread has spent on a core; nil if
// the system does not measure it.
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
