package trace

import "time"

// A Window is a period in which the scheduler wants spans recorded.
type Window struct {
	// ID is 0 if none is wanted.
	ID uint64

	// StartAt is by the scheduler's clock, in nanoseconds of Unix time.
	StartAt int64

	// Steps is how many steps workers record; 0: until Limit.
	Steps int

	// Limit is how long after StartAt all nodes stop recording.
	Limit time.Duration
}

// Room for the spans of one window.
const (
	// spansPerStep is how many spans a worker may have in a step.
	spansPerStep = 1 << 12

	// mostSpans bounds the memory of a window to about 20 MB.
	mostSpans = 1 << 18

	spansOfServer = mostSpans
)

// A Recording is what a node recorded: in a window, or in a profile.
type Recording struct {
	// Window is 0 if there is none.
	Window uint64

	Spans []Span

	// Names has the names of the spans' keys, by index.
	Names []string

	// Dropped is how many spans there was no room for.
	Dropped uint64
}

// A Follower records the windows that the scheduler asks for. It has no goroutine and no timer: its
// owner passes on what heartbeats brought, and asks it when a window may have ended. Its methods
// must not be called concurrently.
//
//	f.Follow(window, offset)             // after each heartbeat
//	r, ok := f.Take(now, false)          // after Follow, after <-f.Done(), and at the time of Until
type Follower struct {
	r      *Recorder
	worker bool

	// open is the ID of the window that capture fills.
	open uint64

	// capture is nil if there is none.
	capture *Capture

	// until is the window's end by this process's clock.
	until int64

	// over is the ID of the last window that was taken or dropped.
	over uint64
}

// NewFollower returns the Follower of a node. A worker stops recording after its steps, a server
// when the scheduler closes the window; both stop at its Limit.
func NewFollower(r *Recorder, worker bool) *Follower { return &Follower{r: r, worker: worker} }

// Follow takes the window that the scheduler wants now; the zero Window is none. offset is the
// scheduler's clock minus this one. The memory for spans is allocated at once, not when the window
// starts.
func (f *Follower) Follow(w Window, offset time.Duration) {
	if f.capture != nil && w.ID != f.open {
		f.capture.Close()

		// Nobody wants the spans of the window before.
		if w.ID != 0 {
			f.capture, f.over = nil, f.open
		}
	}
	if w.ID == 0 || w.ID == f.over || f.capture != nil {
		return
	}
	cfg := Config{From: w.StartAt - int64(offset), Spans: spansOfServer}
	if f.worker && w.Steps > 0 {
		// Workers do not begin a step at the same time, so they have one less in common.
		cfg.Steps = w.Steps + 1
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

// Until is when the open window ends at the latest, in nanoseconds of the Recorder's clock; ok is
// false while none is open.
func (f *Follower) Until() (at int64, ok bool) { return f.until, f.capture != nil }

// Take returns what was recorded, once for each window, when the window has ended: after its steps,
// at its Limit, or because the scheduler closed it. Until then it returns false. end ends the
// window now. now is in nanoseconds of the Recorder's clock.
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
	r := f.capture.Take()
	r.Window, f.over, f.capture = f.open, f.open, nil
	return r, true
}
