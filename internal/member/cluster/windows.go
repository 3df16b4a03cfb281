package cluster

import (
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// windows hands the newest TraceWindow that a heartbeat brought to the goroutine that follows it.
type windows struct {
	// mu guards newest.
	mu     sync.Mutex
	newest wire.TraceWindow
	// other has a value after newest has changed.
	other chan struct{}
}

func newWindows() *windows { return &windows{other: make(chan struct{}, 1)} }

// put takes the window that a heartbeat brought. Every heartbeat brings it, so that most are the
// same one.
func (w *windows) put(x wire.TraceWindow) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x == w.newest {
		return
	}
	w.newest = x
	select {
	case w.other <- struct{}{}:
	default:
	}
}

// get is the newest window. Windows between two gets are passed over: only the newest counts.
func (w *windows) get() trace.Window {
	w.mu.Lock()
	defer w.mu.Unlock()
	return trace.Window{ID: w.newest.ID, StartAt: w.newest.StartAt, Steps: int(w.newest.Steps), Limit: time.Duration(w.newest.LimitMillis) * time.Millisecond}
}
