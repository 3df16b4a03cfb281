package metrics

import (
	"sync"
	"time"
)

// window is the time over which Throughput.Recent looks back, at least.
const window = 5 * time.Second

// A Throughput counts examples over time.
type Throughput struct {
	mu    sync.Mutex // guards all below
	start time.Time
	total int64
	// Two overlapping windows: when the newer is old enough, it becomes the
	// older one and a new one begins.
	older, newer mark
}

type mark struct {
	at    time.Time
	total int64
}

// NewThroughput starts counting now.
func NewThroughput() *Throughput {
	now := time.Now()
	return &Throughput{start: now, older: mark{at: now}, newer: mark{at: now}}
}

// Add counts n examples.
func (t *Throughput) Add(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += int64(n)
	if now := time.Now(); now.Sub(t.newer.at) >= window {
		t.older, t.newer = t.newer, mark{now, t.total}
	}
}

// Total returns the number of examples.
func (t *Throughput) Total() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// Rate returns the examples per second since the start.
func (t *Throughput) Rate() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return perSecond(t.total, time.Since(t.start))
}

// Recent returns the examples per second over the last 5 to 10 seconds, or
// since the start.
func (t *Throughput) Recent() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return perSecond(t.total-t.older.total, time.Since(t.older.at))
}

func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
