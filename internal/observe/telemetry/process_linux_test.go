package telemetry

import (
	"syscall"
	"testing"
)

// The processor time is what the system says: that of the program and of the system for it.
func TestProcessorTimeIsTheSystems(t *testing.T) {
	system := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	before := system()
	got, ok := cpuSeconds()
	if after := system(); !ok || got < before-1e-6 || got > after+1e-6 {
		t.Errorf("got %g s, %t, want between %g and %g", got, ok, before, after)
	}
}
