package kvstore

import (
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// A Staleness says how old a value was, in dist_async. For a key with several shards each number is
// the largest of all shards.
type Staleness struct {
	// Round is how many rounds the value contains; in dist_async each push of a worker is a
	// round.
	Round uint64
	// Missed is how many rounds other workers made between the value that this worker had
	// before its newest push and that push: the gradient was computed without them. Only
	// WithStaleness, together with the number of workers, bounds it. 0 in a synchronous store.
	Missed uint64
	// Lead is how many of its pushes the worker was ahead of the slowest when it got the value:
	// with WithStaleness(k), at most k. 0 in a synchronous store.
	Lead uint64
}

// missedUpdates sums up Staleness.Missed over the pulls of an asynchronous store.
type missedUpdates struct{ pulls, sum, most atomic.Uint64 }

func (m *missedUpdates) add(missed uint64) {
	m.pulls.Add(1)
	m.sum.Add(missed)
	for most := m.most.Load(); missed > most && !m.most.CompareAndSwap(most, missed); most = m.most.Load() {
	}
}

// collect is for Recorder.Collect.
func (m *missedUpdates) collect(r *telemetry.Recorder) {
	if n := m.pulls.Load(); n > 0 {
		r.Set(telemetry.StalenessMean, float64(m.sum.Load())/float64(n))
		r.Set(telemetry.StalenessMax, float64(m.most.Load()))
	}
}
