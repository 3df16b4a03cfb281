package trace

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// A Recorder records the spans of one process. Its methods may be called concurrently. A nil
// Recorder is never on.
type Recorder struct {
	clock *telemetry.Clock

	// open has the captures that record; nil: there is none. It is replaced under mu.
	open atomic.Pointer[[]*Capture]

	// step is the number of the step under way.
	step atomic.Uint64

	// begun is when that step began; 0: it is not known.
	begun atomic.Int64

	// mu is held for changes of open.
	mu sync.Mutex

	// naming guards the fields below.
	naming sync.RWMutex

	// names are by number. names[0] is empty.
	names []string

	ids map[string]uint32
}

// An Owner has the Recorder of its process. A store that kvstore.Create returns is one; a wrapper
// of a store need not be.
type Owner interface{ Trace() *Recorder }

// NewRecorder returns a Recorder whose times are the clock's.
func NewRecorder(clock *telemetry.Clock) *Recorder {
	return &Recorder{clock: clock, names: []string{""}, ids: map[string]uint32{}}
}

// Clock is the Recorder's clock.
func (r *Recorder) Clock() *telemetry.Clock {
	if r == nil {
		return nil
	}
	return r.clock
}

// On reports whether a Capture is open.
func (r *Recorder) On() bool { return r != nil && r.open.Load() != nil }

// Now is the time in nanoseconds of the Recorder's clock. The Recorder must not be nil.
func (r *Recorder) Now() int64 { return r.clock.Now() }

// At is t in nanoseconds of the Recorder's clock. The Recorder must not be nil.
func (r *Recorder) At(t time.Time) int64 { return r.clock.At(t) }

// Add puts a span into the open Captures. It neither locks, waits nor allocates.
func (r *Recorder) Add(s Span) {
	if r == nil {
		return
	}
	if open := r.open.Load(); open != nil {
		for _, c := range *open {
			c.add(s)
		}
	}
}

// Step is the number of the current step, for Span.Step.
func (r *Recorder) Step() uint64 {
	if r == nil {
		return 0
	}
	return r.step.Load()
}

// BeginStep says that a step begins now, for loops that do other things between two steps.
func (r *Recorder) BeginStep(step uint64) {
	if r == nil {
		return
	}
	r.step.Store(step)
	if r.On() {
		r.begun.Store(r.Now())
	}
}

// StepDone says that the current step has ended and the next one begins. It records the step, and
// closes the Captures that have all their steps.
func (r *Recorder) StepDone() {
	if r == nil {
		return
	}
	step := r.step.Add(1) - 1
	if !r.On() {
		if r.begun.Load() != 0 {
			r.begun.Store(0)
		}
		return
	}
	now := r.Now()
	if begin := r.begun.Swap(now); begin != 0 {
		r.Add(Span{Kind: Step, Begin: begin, End: now, Step: step})
	}
	for _, c := range *r.captures() {
		if c.cfg.Steps > 0 && c.steps.Load() >= int64(c.cfg.Steps) {
			c.Close()
		}
	}
}

// maxNames bounds the names of a Recorder: a job has at most 1 Mi shards on a server, and hardly
// ever more than thousands of keys.
const maxNames = 1 << 16

// Name returns the number of a key's name, for Span.Key; 0 for a new name beyond 65,535. It takes
// the write lock for new names only.
func (r *Recorder) Name(name string) uint32 {
	r.naming.RLock()
	id, ok := r.ids[name]
	r.naming.RUnlock()
	if ok {
		return id
	}
	r.naming.Lock()
	defer r.naming.Unlock()
	id, ok = r.ids[name]
	if !ok && len(r.names) < maxNames {
		id = uint32(len(r.names))
		r.names = append(r.names, name)
		r.ids[name] = id
	}
	return id
}

// Names returns all names so far: Names()[s.Key] is the name of a Span's key, Names()[0] is empty.
// A name keeps its number.
func (r *Recorder) Names() []string {
	r.naming.RLock()
	defer r.naming.RUnlock()
	return slices.Clip(r.names)
}

// captures is never nil.
func (r *Recorder) captures() *[]*Capture {
	if open := r.open.Load(); open != nil {
		return open
	}
	return &[]*Capture{}
}

// Config says what a Capture keeps.
type Config struct {
	// From is in nanoseconds of the clock. Spans that begin before it are left out; 0: none are.
	From int64

	// Steps is after how many whole steps the Capture ends; 0: only Close ends it.
	Steps int

	// Spans is the capacity in spans, of 72 bytes each; 0: DefaultSpans.
	Spans int
}

// DefaultSpans is the default capacity of a Capture. 20 steps of a model with a hundred keys on
// four servers are 16,000 spans on a worker, and four times as many on a server of eight workers.
const DefaultSpans = 1 << 16

// A Capture keeps the spans of a Recorder from Open to Close. Its memory is allocated by Open.
type Capture struct {
	r   *Recorder
	cfg Config

	// next counts the slots that were given out and, beyond the last one, those that were asked
	// for.
	next atomic.Int64

	// steps counts the steps that are whole.
	steps atomic.Int64

	slots []slot
	done  chan struct{}
	once  sync.Once
}

// A slot is one span. It may be read once it is written, after which it does not change.
type slot struct {
	span    Span
	written atomic.Bool
}

// Open starts a Capture, which records until Close or until it has its steps.
func (r *Recorder) Open(cfg Config) *Capture {
	if cfg.Spans <= 0 {
		cfg.Spans = DefaultSpans
	}
	c := &Capture{r: r, cfg: cfg, slots: make([]slot, cfg.Spans), done: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	open := append(slices.Clone(*r.captures()), c)
	r.open.Store(&open)
	return c
}

// Close ends the recording.
func (c *Capture) Close() {
	c.once.Do(func() {
		c.r.mu.Lock()
		defer c.r.mu.Unlock()
		open := slices.DeleteFunc(slices.Clone(*c.r.captures()), func(x *Capture) bool { return x == c })
		if len(open) == 0 {
			c.r.open.Store(nil)
		} else {
			c.r.open.Store(&open)
		}
		close(c.done)
	})
}

// Done is closed once the Capture has all its steps, or is closed.
func (c *Capture) Done() <-chan struct{} { return c.done }

func (c *Capture) add(s Span) {
	if s.Begin < c.cfg.From {
		return
	}
	if s.Kind == Step {
		c.steps.Add(1)
	}
	if i := c.next.Add(1) - 1; i < int64(len(c.slots)) {
		x := &c.slots[i]
		x.span = s
		x.written.Store(true)
	}
}

// Take ends the recording and returns it: all spans in the order in which they were added, without
// those that are being written.
func (c *Capture) Take() Recording {
	c.Close()
	n := c.Len()
	r := Recording{Spans: make([]Span, 0, n), Names: c.r.Names(), Dropped: c.Dropped()}
	for i := range c.slots[:n] {
		if x := &c.slots[i]; x.written.Load() {
			r.Spans = append(r.Spans, x.span)
		}
	}
	return r
}

// Len is the number of spans, including those being written.
func (c *Capture) Len() int { return int(min(c.next.Load(), int64(len(c.slots)))) }

// Dropped is how many spans did not fit.
func (c *Capture) Dropped() uint64 { return uint64(max(0, c.next.Load()-int64(len(c.slots)))) }
