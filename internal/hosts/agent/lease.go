package agent

import "time"

// A lease is over when the launcher has been silent for its length. It is used by one goroutine.
type lease struct {
	// length is negative if the lease never ends.
	length time.Duration

	// timer fires when the lease may be over.
	timer *time.Timer
	heard time.Time

	// excused says that the silence so far was found to be this process's own.
	excused bool
}

// newLease begins a lease. Whoever gets it stops its timer.
func newLease(length time.Duration) *lease {
	l := &lease{length: length, timer: time.NewTimer(max(length, 0)), heard: time.Now()}
	if length < 0 {
		l.timer.Stop()
	}
	return l
}

// renew says that the launcher was heard.
func (l *lease) renew() {
	l.heard, l.excused = time.Now(), false
	if l.length > 0 {
		l.timer.Reset(l.length)
	}
}

// over reports whether the launcher has been silent, when the timer has fired. If the timer fires
// late, it is this process that was stopped, or was busy writing, and what the launcher has sent
// waits to be read: then the launcher gets a little time once.
func (l *lease) over() bool {
	if late := time.Since(l.heard) - l.length; late > PingInterval && !l.excused {
		l.excused = true
		l.timer.Reset(2 * PingInterval)
		return false
	}
	return true
}
