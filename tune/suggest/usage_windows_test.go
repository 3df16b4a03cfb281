package suggest

import (
	"syscall"
	"testing"
	"time"
)

// processorTime is what this process has had of the processors so far: on a busy machine, other
// than the clock's, the work's own.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		t.Fatal(err)
	}
	var created, ended, kernel, user syscall.Filetime
	if err := syscall.GetProcessTimes(self, &created, &ended, &kernel, &user); err != nil {
		t.Fatal(err)
	}
	used := 0
	for _, part := range []syscall.Filetime{kernel, user} {
		used += int(part.HighDateTime)<<32 | int(part.LowDateTime) // in 100 ns
	}
	return time.Duration(used) * 100
}
