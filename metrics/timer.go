package metrics

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A Phase is what a worker's time goes to.
type Phase int

// The phases of a step.
const (
	Other   Phase = iota // everything that has no name
	Data                 // waiting for the next batch
	Compute              // forward and backward
	Push                 // handing gradients over
	Wait                 // waiting for values
	numPhases
)

var phaseNames = [numPhases]string{"other", "data", "compute", "push", "wait"}

// String returns the phase's name.
func (p Phase) String() string {
	if p < 0 || p >= numPhases {
		return fmt.Sprintf("Phase(%d)", int(p))
	}
	return phaseNames[p]
}

// A Timer divides time into phases. Switch says what a worker does from now
// on; it costs about as much as reading the clock. What happens beside it, in
// other goroutines, is added with Add and is not part of the total.
type Timer struct {
	mu    sync.Mutex // guards phase, since and on
	phase Phase
	since time.Time
	on    bool

	spent  [numPhases]atomic.Int64 // by Switch
	beside [numPhases]atomic.Int64 // by Add
}

// NewTimer returns a timer that stands still until the first Switch.
func NewTimer() *Timer { return &Timer{} }

// Switch ends the phase under way, if any, and begins another, and returns the
// one that ended (Other if none), so that a caller can switch back.
func (t *Timer) Switch(p Phase) Phase {
	if p < 0 || p >= numPhases {
		panic(fmt.Sprintf("metrics: Timer.Switch: got %v, want one of %v", p, phaseNames))
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.phase
	if t.on {
		t.spent[before].Add(int64(now.Sub(t.since)))
	}
	t.phase, t.since, t.on = p, now, true
	return before
}

// Stop ends the phase under way.
func (t *Timer) Stop() {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.on {
		t.spent[t.phase].Add(int64(now.Sub(t.since)))
	}
	t.phase, t.on = Other, false
}

// Add counts time that passed beside the worker's own, such as a push in a
// goroutine while the worker computes.
func (t *Timer) Add(p Phase, d time.Duration) { t.beside[p].Add(int64(d)) }

// A Share is the part of a phase in the time that a timer ran.
type Share struct {
	Phase  Phase
	Time   time.Duration
	Share  float64       // of the total, in [0, 1]
	Beside time.Duration // hidden behind other phases
}

// Shares returns all phases, in the order of their numbers, including the one
// under way up to now. It does not change the timer.
func (t *Timer) Shares() []Share {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	shares := make([]Share, numPhases)
	total := time.Duration(0)
	for p := range shares {
		d := time.Duration(t.spent[p].Load())
		if t.on && t.phase == Phase(p) {
			d += now.Sub(t.since)
		}
		total += d
		shares[p] = Share{Phase: Phase(p), Time: d, Beside: time.Duration(t.beside[p].Load())}
	}
	for p := range shares {
		if total > 0 {
			shares[p].Share = float64(shares[p].Time) / float64(total)
		}
	}
	return shares
}

// Total returns the time that the timer ran.
func (t *Timer) Total() time.Duration {
	total := time.Duration(0)
	for _, s := range t.Shares() {
		total += s.Time
	}
	return total
}

// Reset sets all times to zero. The phase under way begins anew.
func (t *Timer) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := range t.spent {
		t.spent[p].Store(0)
		t.beside[p].Store(0)
	}
	t.since = time.Now()
}
