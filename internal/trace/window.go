package trace

import "time"

// A Window is a time in which the scheduler wants spans.
type Window struct {
	ID      uint64        // 0: none is wanted
	StartAt int64         // the scheduler's clock, in nanoseconds of Unix time
	Steps   int           // that workers are to record; 0: until Limit
	Limit   time.Duration // from StartAt, after which all end
}

// Room for the spans of one window.
const (
	spansPerStep  = 1 << 12 // of a worker
	mostSpans     = 1 << 18 // 20 MB
	spansOfServer = mostSpans
)

// A Recording is what a node recorded in one window.
type Recording struct {
	Window  uint64
	Spans   []Span
	Names   []string // of the spans' keys, by index
	Dropped uint64   // spans that there was no room for
}

// A Follower records what the scheduler wants. It has no goroutine and no timer: whoever owns it tells it what heartbeats brought, and asks it when something
// may have ended. It is not for use by several goroutines.
//
//	f.Follow(window, offset)             // after each heartbeat
//	r, ok := f.Take(now, false)          // then, after <-f.Done(), and when Until has come
type Follower struct {
	r      *Recorder
	worker bool

	open    uint64   // ID of the window of capture
	capture *Capture // nil: none
	until   int64    // of this clock: its end
	over    uint64   // ID of the last window that was taken or dropped
}

// NewFollower returns the Follower of a node. Workers end with their steps, servers when the scheduler says that all workers have.
func NewFollower(r *Recorder, worker bool) *Follower { return &Follower{r: r, worker: worker} }

// Follow takes note of the window that is wanted (its zero value: none), where the scheduler's clock is offset ahead of this one. Room is made at once, so that
// nothing is left to do when the window starts.
func (f *Follower) Follow(w Window, offset time.Duration) {
	if f.capture != nil && w.ID != f.open {
		f.capture.Close()
		if w.ID != 0 { // nobody wants the spans of the old one
			f.capture, f.over = nil, f.open
		}
	}
	if w.ID == 0 || w.ID == f.over || f.capture != nil {
		return
	}
	cfg := Config{From: w.StartAt - int64(offset), Spans: spansOfServer}
	if f.worker && w.Steps > 0 {
		cfg.Steps = w.Steps + 1 // workers do not begin a step at the same time: they have one less in common
		cfg.Spans = min(max(DefaultSpans, cfg.Steps*spansPerStep), mostSpans)
	}
	f.until = cfg.From + int64(w.Limit)
	f.open, f.capture = w.ID, f.r.Open(cfg)
}

// Done is closed when the window has ended by itself; nil while none is open.
func (f *Follower) Done() <-chan struct{} {
	if f.capture == nil {
		return nil
	}
	return f.capture.Done()
}

// Until is the time of this clock at which the open window ends at the latest; ok is false while none is open.
func (f *Follower) Until() (at int64, ok bool) { return f.until, f.capture != nil }

// Take returns what was recorded, once for each window: after its steps, its time, or when the scheduler no longer wants more. end ends it now.
func (f *Follower) Take(now int64, end bool) (Recording, bool) {
	if f.capture == nil {
		return Recording{}, false
	}
	if end || now >= f.until {
		f.capture.Close()
	}
	select {
	case <-f.capture.Done():
	default:
		return Recording{}, false
	}
	c := f.capture
	f.capture = nil
	r := Recording{Window: f.open, Names: f.r.Names(), Dropped: c.Dropped()}
	f.over = f.open
	r.Spans, _ = c.Append(make([]Span, 0, c.Len()), 0, c.Len())
	return r, true
}
