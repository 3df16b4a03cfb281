package shardserver

import (
	"sync/atomic"
	"time"
)

// A waitLog lets one line about waits into the log at a time, whatever the number of waiting calls.
type waitLog struct {
	// last is when the newest line was written, on the server's clock.
	last atomic.Int64
}

// due reports whether a line may be written now, the only one for so long. Of several callers at a
// time one gets true.
func (x *waitLog) due(now int64, every time.Duration) bool {
	last := x.last.Load()
	return time.Duration(now-last) >= every && x.last.CompareAndSwap(last, now)
}
