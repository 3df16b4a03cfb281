package shardserver

import "time"

// A patience is how long a call still waits. All waits of a call share one deadline, counted from
// the first of them: a call that waits for its turn and then for its round must not wait twice as
// long as it asked for.
//
// The timer is kept with the call. After each wait it is stopped, unless it was its signal that
// ended the wait.
type patience struct {
	timer *time.Timer
	// started is when the first wait began. Zero: the call has not waited.
	started time.Time
}

// begin begins the first wait; later calls change nothing.
func (p *patience) begin() {
	if p.started.IsZero() {
		p.started = time.Now()
	}
}

// waited is how long ago the first wait began.
func (p *patience) waited() time.Duration { return time.Since(p.started) }

// set makes the timer fire after d.
func (p *patience) set(d time.Duration) {
	if p.timer == nil {
		p.timer = time.NewTimer(d)
	} else {
		p.timer.Reset(d)
	}
}

// stop stops the timer after a wait that something else has ended. A later set needs no drain:
// timers of this language's version deliver nothing after Stop.
func (p *patience) stop() { p.timer.Stop() }
