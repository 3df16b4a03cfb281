package tune

import (
	"sync"
	"time"
)

// A pulse is what is heard of an attempt while it runs. The methods of a nil pulse do nothing: it
// is that of an attempt that nobody waits for.
type pulse struct {
	// beats holds one token after something was heard.
	beats chan struct{}

	// mu guards heardOf.
	mu sync.Mutex
	heardOf
}

// heardOf is what a pulse has heard so far.
type heardOf struct {
	// heard is the time of the newest sign of life.
	heard time.Time
	// step is that of the newest report, -1 before the first.
	step int
	// told is when the attempt was asked to return; zero: it was not.
	told time.Time
}

// newPulse is the pulse of an attempt that begins now.
func newPulse() *pulse {
	return &pulse{beats: make(chan struct{}, 1), heardOf: heardOf{heard: time.Now(), step: -1}}
}

// reported takes note of a report. ends says that its answer asks the attempt to return.
func (p *pulse) reported(step int, ends bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.step = max(p.step, step)
	if ends && p.told.IsZero() {
		p.told = time.Now()
	}
	p.mu.Unlock()
	p.beat()
}

// beat takes note of a sign of life: the attempt does something, though it does not report.
func (p *pulse) beat() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.heard = time.Now()
	p.mu.Unlock()
	select {
	case p.beats <- struct{}{}:
	default:
	}
}

// now is what was heard so far.
func (p *pulse) now() heardOf {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heardOf
}
