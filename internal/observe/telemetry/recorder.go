package telemetry

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// A Recorder holds what one process measures. Its methods may be called concurrently; but for
// Collect, CollectBlames, SetScores and Record they neither lock nor allocate. A nil Recorder takes
// everything and keeps nothing.
type Recorder struct {
	slots  [numSlots]slot
	steps  lastSteps
	scores atomic.Pointer[[]Score]

	// Calls of SetTogether that have begun, and those that are done: while they differ a Record
	// would have a part of what they set.
	begun, done atomic.Uint64

	// mu guards the fields below.
	mu sync.Mutex

	collectors []func(*Recorder)
	blames     func() []Blame
}

// A slot is one value, as the bits of a float64.
type slot struct {
	set  atomic.Bool
	bits atomic.Uint64
}

// slot is nil for an index that the metric does not have, and for TestScore, whose values have
// names.
func (r *Recorder) slot(m Metric, index int) *slot {
	if r == nil || int(m) >= numMetrics || m == TestScore || index < 0 || first[m]+index >= first[m+1] {
		return nil
	}
	return &r.slots[first[m]+index]
}

// Add adds to a counter.
func (r *Recorder) Add(m Metric, x float64) { r.AddAt(m, 0, x) }

// AddAt adds to the counter of an index.
func (r *Recorder) AddAt(m Metric, index int, x float64) {
	s := r.slot(m, index)
	if s == nil {
		return
	}
	for {
		old := s.bits.Load()
		if s.bits.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+x)) {
			break
		}
	}
	if !s.set.Load() {
		s.set.Store(true)
	}
}

// Set sets a gauge, or a counter that something else counts.
func (r *Recorder) Set(m Metric, x float64) { r.SetAt(m, 0, x) }

// SetAt sets the gauge of an index.
func (r *Recorder) SetAt(m Metric, index int, x float64) {
	if s := r.slot(m, index); s != nil {
		s.bits.Store(math.Float64bits(x))
		if !s.set.Load() {
			s.set.Store(true)
		}
	}
}

// SetTogether calls set, which sets values that belong together: no Record has some of them without
// the others.
func (r *Recorder) SetTogether(set func()) {
	if r == nil {
		return
	}
	r.begun.Add(1)
	set()
	r.done.Add(1)
}

// Observe counts a duration in StepBuckets or RoundBuckets: one bucket is added to, that of the
// least bound that holds it.
func (r *Recorder) Observe(buckets Metric, seconds float64) {
	for i, bound := range StepBounds {
		if seconds <= bound {
			r.AddAt(buckets, i, 1)
			return
		}
	}
}

// Collect makes f run before each Record: for values that are read when they are asked for.
func (r *Recorder) Collect(f func(*Recorder)) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collectors = append(r.collectors, f)
}

// CollectBlames makes f give each Record its Blames: at most MaxBlames, sorted by node. A Recorder
// has one such f, the newest.
func (r *Recorder) CollectBlames(f func() []Blame) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blames = f
}

// Record is what is known now: all values that were ever set. It is for heartbeats alone: the next
// one has the blames that grew since.
func (r *Recorder) Record() Record {
	if r == nil {
		return Record{}
	}
	rec := r.Values()
	r.mu.Lock()
	blames := r.blames
	r.mu.Unlock()
	if blames != nil {
		rec.Blames = blames()
	}
	rec.Steps = r.steps.last(nil)
	return rec
}

// Values are the Samples and the Scores of a Record.
func (r *Recorder) Values() Record {
	var rec Record
	if r == nil {
		return rec
	}
	r.mu.Lock()
	collectors := r.collectors
	r.mu.Unlock()
	for _, f := range collectors {
		f(r)
	}
	for done := r.done.Load(); ; done = r.done.Load() {
		r.read(&rec)
		if r.begun.Load() == done {
			return rec
		}
		runtime.Gosched()
	}
}

// read reads all values that were ever set.
func (r *Recorder) read(rec *Record) {
	rec.Samples = rec.Samples[:0]
	for m := range Metric(numMetrics) {
		for i := range first[m+1] - first[m] {
			if s := &r.slots[first[m]+i]; s.set.Load() {
				rec.Samples = append(rec.Samples, Sample{m, uint8(i), math.Float64frombits(s.bits.Load())})
			}
		}
	}
	if scores := r.scores.Load(); scores != nil {
		rec.Scores = *scores
	}
}

// AddStep adds a step that is done; its Number is given here.
func (r *Recorder) AddStep(s Step) {
	if r == nil {
		return
	}
	n := r.steps.newest.Add(1)
	x := &r.steps.ring[n%ringSteps]
	x.number.Store(0)
	for i, v := range [...]int64{s.End, int64(s.Total), int64(s.Compute), int64(s.Wait), int64(s.Data), int64(s.Save)} {
		x.values[i].Store(v)
	}
	x.number.Store(n)
}

// SetScores replaces the scores. Those beyond MaxScores are left out, and those whose name a Score
// may not have, or another one has.
func (r *Recorder) SetScores(list []Score) {
	if r == nil {
		return
	}
	var kept []Score
	for _, s := range list {
		if len(kept) < MaxScores && IsScoreName(s.Name) && !hasScore(kept, s.Name) {
			kept = append(kept, s)
		}
	}
	r.scores.Store(&kept)
}
