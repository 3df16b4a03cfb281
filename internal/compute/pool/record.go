package pool

import "time"

// trusted is the longest time of a piece that is taken from the wall's clock alone: other programs
// rarely come in between.
const trusted = 30 * time.Microsecond

// Record makes each later Run call its pieces in order on the caller, whatever the number of
// threads, and then hand note how long each took; note may not keep the slice. A nil note ends it.
// So one core tells how work that was cut for many would spread over them. Like Run it belongs to
// one goroutine, and may not be called during a Run.
//
// used, if not nil, is the time that the caller's thread has spent on a core: then pieces do not
// last longer because other programs had the core in between. The caller must stay on its thread.
func (p *Pool) Record(used func() time.Duration, note func(parts []time.Duration)) {
	p.used, p.record = used, note
}

func (p *Pool) runRecorded(n int, f task) {
	parts := make([]time.Duration, n)

	// mark is what was used at the last look, and since what pieces took after it.
	var mark, since time.Duration
	if p.used != nil {
		mark = p.used()
	}
	begun := time.Now()
	for i := range n {
		f.call(0, i)
		now := time.Now()
		parts[i] = now.Sub(begun)
		begun = now
		if p.used == nil {
			continue
		}
		// Looking costs more than the clock does, so only long pieces are looked at.
		if parts[i] > trusted {
			look := p.used()
			parts[i] = min(parts[i], max(look-mark-since, 0))
			mark, since = look, 0
			begun = time.Now()
		} else {
			since += parts[i]
		}
	}
	p.record(parts)
}
