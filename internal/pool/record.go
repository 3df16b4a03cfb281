package pool

import "time"

// Record makes each later Run call its pieces in order on the caller, whatever the number of threads, and then hand note how
// long each took; note may not keep the slice. nil ends it. So one core tells how work that was cut for many would spread over
// them. Like Run it belongs to one goroutine, and may not be called during a Run.
func (p *Pool) Record(note func(parts []time.Duration)) { p.record = note }

func (p *Pool) runRecorded(n int, f func(i int)) {
	parts := make([]time.Duration, n)
	begun := time.Now()
	for i := range n {
		f(i)
		now := time.Now()
		parts[i] = now.Sub(begun)
		begun = now
	}
	p.record(parts)
}
