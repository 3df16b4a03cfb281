package worker

import (
	"sync"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/metrics"
)

// Staleness says how old the values were that this worker trained on in an asynchronous store: one
// number for each parameter and step.
type Staleness struct {
	// Missed counts the updates of other workers that a gradient was computed without
	// (kvstore.Staleness.Missed).
	Missed metrics.Histogram
	// Lead counts by how many steps this worker was ahead of the slowest
	// (kvstore.Staleness.Lead).
	Lead metrics.Histogram
}

// Merge counts all that o has counted.
func (s *Staleness) Merge(o *Staleness) {
	s.Missed.Merge(&o.Missed)
	s.Lead.Merge(&o.Lead)
}

// ages counts how old the values are that arrive. Pulls of several parameters add at the same time.
type ages struct {
	mu    sync.Mutex
	stale Staleness
}

func (a *ages) add(age kvstore.Staleness) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stale.Missed.Add(age.Missed)
	a.stale.Lead.Add(age.Lead)
}

// missed sums up what so many values have missed since take.
func (a *ages) missed() (sum, values uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stale.Missed.Sum, a.stale.Missed.Count
}

// take returns what was counted since the last call.
func (a *ages) take() *Staleness {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stale
	a.stale = Staleness{}
	return &s
}
