package cluster

import (
	"math"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A report is what the heartbeats say of the process, as it was set last.
type report struct {
	// mu guards all below.
	mu         sync.Mutex
	step       uint64
	epoch      uint64
	adaptation string
	// waits says which call of the process has waited longest; nil: nothing is said of that.
	waits func() (call, whom string, waited time.Duration)
}

// heartbeat is a heartbeat with what the report says, without node, generation and record.
func (r *report) heartbeat() *wire.Heartbeat {
	r.mu.Lock()
	m := &wire.Heartbeat{Step: r.step, Epoch: r.epoch, Adaptation: r.adaptation}
	longest := r.waits
	r.mu.Unlock()
	if longest != nil {
		call, whom, waited := longest()
		m.Call, m.WaitsFor = shorten(call, wire.MaxWaitText), shorten(whom, wire.MaxWaitText)
		m.WaitsMillis = uint32(min(max(waited.Milliseconds(), 0), math.MaxUint32))
	}
	return m
}

// shorten cuts a text to so many bytes of valid UTF-8.
func shorten(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(text, "")
}
