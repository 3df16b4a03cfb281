package shardserver

import (
	"time"

	"github.com/paragon-train/paragon/internal/observe/trace"
)

// A clock is the time in nanoseconds, begins with Unix time, and does not jump. It takes half as
// long to read as time.Now.
type clock struct {
	began time.Time
	// ahead is the trace's clock minus this one.
	ahead int64
}

// newClock returns a clock beside that of a trace, which may be nil.
func newClock(r *trace.Recorder) clock {
	c := clock{began: time.Now()}
	if r != nil {
		c.ahead = r.At(c.began) - c.began.UnixNano()
	}
	return c
}

// now is the time. It is called several times for each request.
func (c *clock) now() int64 { return c.began.UnixNano() + int64(time.Since(c.began)) }

// traced turns a time of now into one of the trace's clock.
func (c *clock) traced(at int64) int64 { return at + c.ahead }
