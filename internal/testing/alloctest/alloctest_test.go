package alloctest

import (
	"runtime"
	"sync/atomic"
	"testing"
)

var sink atomic.Pointer[[64]byte]

func TestPerRunCountsWhatTheCodeAllocates(t *testing.T) {
	if got := PerRun(10, func() { sink.Store(new([64]byte)) }); got < 1 {
		t.Errorf("one allocation a run: got %v", got)
	}
	if got := PerRun(10, func() {}); got != 0 {
		t.Errorf("no allocation: got %v", got)
	}
}

// An allocation of somebody else now and then is not the code's.
func TestPerRunForgivesOthersOnce(t *testing.T) {
	runs := 0
	got := PerRun(5, func() {
		if runs++; runs <= 6 {
			// These are the runs of the first attempt, with its warm-up.
			sink.Store(new([64]byte))
			runtime.Gosched()
		}
	})
	if got != 0 {
		t.Errorf("allocations in the first attempt only: got %v, want 0", got)
	}
}
