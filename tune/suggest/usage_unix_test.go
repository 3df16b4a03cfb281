//go:build unix

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
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
