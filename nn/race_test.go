//go:build race

package nn_test

import (
	"runtime"
	"sync"
	"testing"
)

// The race detector sees what a sync.Map orders. It does not in a program one of whose packages is compiled without instrumentation and uses a
// sync.Map, too: the linker may take that package's copy of the generic code for the whole program, and then reports races that are none,
// such as in encoding/json's cache of types.
func TestTheRaceDetectorSeesWhatASyncMapOrders(t *testing.T) {
	var m sync.Map
	m.Store("before", nil) // the first use makes the map, which would order the accesses below by itself
	value := 0
	go func() {
		value = 1
		m.Store("value", &value)
	}()
	for {
		if p, ok := m.Load("value"); ok {
			if got := *p.(*int); got != 1 {
				t.Errorf("got %d, want 1", got)
			}
			return
		}
		runtime.Gosched()
	}
}
