package worker

import (
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

// aged takes note of the value of parameter i that the store has just sent.
func (t *Trainer) aged(i int) {
	age := t.cfg.Store.Staleness(t.keys[i])
	t.staleMu.Lock()
	defer t.staleMu.Unlock()
	t.stale.Missed.Add(age.Missed)
	t.stale.Lead.Add(age.Lead)
}

// TakeStaleness returns what was counted since the last call; nil with a synchronous store, where
// no value is old.
func (t *Trainer) TakeStaleness() *Staleness {
	if !t.async() {
		return nil
	}
	t.staleMu.Lock()
	defer t.staleMu.Unlock()
	s := t.stale
	t.stale = Staleness{}
	return &s
}

// TakeCaught returns how many of this worker's contributions the servers' guard has refused or
// clipped since the last call, as far as the values that were pulled have told.
func (t *Trainer) TakeCaught() uint64 {
	var all uint64
	for _, key := range t.keys {
		all += t.cfg.Store.Caught(key)
	}
	fresh := all - min(t.caught, all)
	t.caught = all
	return fresh
}
