package telemetry

import (
	"sync"
	"time"
)

// A Clock is a process's clock, and what is known of the scheduler's. It begins at the system's
// time and goes on by the monotonic clock, so it never jumps. Its methods may be called
// concurrently.
type Clock struct {
	begin time.Time

	// mu guards the fields below.
	mu sync.Mutex

	known       bool
	incarnation uint64

	// offset is that of the heartbeat that is kept: the scheduler's clock minus this one.
	offset int64

	// bound is how wrong offset could be when that heartbeat came.
	bound int64

	// at is when that heartbeat came.
	at int64
}

// NewClock returns a Clock that begins now.
func NewClock() *Clock { return &Clock{begin: time.Now()} }

// Now is the time of this clock in nanoseconds of Unix time.
func (c *Clock) Now() int64 { return Unix(c.begin, time.Now()) }

// At is what the clock showed, or will show, at a time of this process.
func (c *Clock) At(t time.Time) int64 { return Unix(c.begin, t) }

// Unix is a time in nanoseconds of Unix time, on a clock that was begun at the system's time and
// never jumps.
func Unix(begin, t time.Time) int64 { return begin.UnixNano() + int64(t.Sub(begin)) }

// drift is how much time passes, in units of the same size, until two clocks may have moved apart
// by one such unit: they may differ by 100 ppm, twice what quartz does.
const drift = 10_000

// Beat takes note of one heartbeat: when it was sent and answered by this clock, and when the
// scheduler took it by its own. It keeps the heartbeat with the least bound, which grows with its
// age. Another incarnation of the scheduler has another clock.
func (c *Clock) Beat(incarnation uint64, sent, answered, taken int64) {
	if answered < sent {
		return
	}

	// The bound is one more for rounding.
	offset, bound := taken-(sent+(answered-sent)/2), (answered-sent)/2+1
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.boundAt(answered)
	apart := c.offset - offset
	if apart < 0 {
		apart = -apart
	}
	// Where both cannot be true the clocks have moved apart faster, as when a machine slept.
	if c.known && c.incarnation == incarnation && bound > was && apart <= bound+was {
		return
	}
	c.known, c.incarnation, c.offset, c.bound, c.at = true, incarnation, offset, bound, answered
}

// boundAt is the bound of the kept heartbeat at a time of this clock. The caller holds mu.
func (c *Clock) boundAt(now int64) int64 { return c.bound + max(0, now-c.at)/drift }

// Offset is the scheduler's clock minus this one, and how wrong that may be. known is false before
// the first heartbeat was answered.
func (c *Clock) Offset() (offset, bound time.Duration, known bool) {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.offset), time.Duration(c.boundAt(now)), c.known
}
