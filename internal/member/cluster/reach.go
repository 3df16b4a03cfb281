package cluster

import (
	"sync"
	"time"
)

// A reach says for how long the scheduler has not answered.
//
// When this process is stopped and continued, a call that was under way fails. So the scheduler
// counts as unreachable only after a call that began while it had been silent for a while; the
// first call after the stop may bring the news that this node is lost.
type reach struct {
	// mu guards all below.
	mu sync.Mutex
	// heard is when the scheduler last answered, and said when the log last said that it does
	// not.
	heard time.Time
	said  time.Time
}

func newReach() *reach { return &reach{heard: time.Now()} }

// An outage is how long the scheduler has not answered.
type outage struct {
	// now is how long that is, and before how long it was when the last call began.
	now, before time.Duration
	// say says that it is time for a line in the log.
	say bool
}

// answered notes that the scheduler has answered.
func (r *reach) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = time.Now()
}

// since is how long the scheduler has not answered, after a call that began at a time.
func (r *reach) since(asked time.Time) outage {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := outage{now: time.Since(r.heard), before: asked.Sub(r.heard)}
	if s.say = s.now >= logEvery && time.Since(r.said) >= logEvery; s.say {
		r.said = time.Now()
	}
	return s
}
