package shard

import (
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A stopwatch measures the rounds of a shard for its Meter, by the Meter's clock. Without a Meter
// nothing is measured and every time is 0.
type stopwatch struct {
	// openedAt is when the open round opened; 0: not known.
	openedAt int64
	// held is the bytes of contributions in slots, less what the Meter was told of them.
	held int64
}

// clock is the Meter's time; 0 without one.
func (cfg *Config) clock() int64 {
	if cfg.Meter == nil {
		return 0
	}
	return cfg.Meter.Now()
}

// quickValues is the size, in values, up to which adding a contribution to a dense shard takes no
// longer than reading the clock.
const quickValues = 1024

// begins is the time, if there is work on the open round that is to be measured; else 0. In a shard
// that is quick it is only measured where it closes the round.
func (w *stopwatch) begins(cfg *Config, r *round, anyOrder bool) int64 {
	if cfg.Meter == nil {
		return 0
	}
	quick := cfg.Form == wire.FormDense && cfg.values() <= quickValues
	if r.present != len(r.slots) && (quick || !r.ready(anyOrder)) {
		return 0
	}
	return cfg.clock()
}

// arrived records a node's contribution to one of the rounds that take them; at 0: now.
func (w *stopwatch) arrived(cfg *Config, r *round, open bool, node uint64, at int64) {
	if cfg.Meter == nil {
		return
	}
	if at == 0 {
		at = cfg.clock()
	}
	if open {
		at = max(at, w.openedAt)
	}
	r.arrivals.add(node, at)
}

// closed tells the Meter of the open round, which has closed now as round number number after work
// that began at begin.
func (w *stopwatch) closed(cfg *Config, r *rounds, number uint64, begin int64) {
	if cfg.Meter == nil {
		return
	}
	now, a := cfg.clock(), &r.open.arrivals
	t := Timing{Round: number, At: now, Duration: time.Duration(now - a.first), Apply: time.Duration(a.apply + now - begin), Update: time.Duration(now - begin)}
	if gap := a.last - a.lastButOne; a.count > 1 && gap > 0 && (w.openedAt == 0 || gap >= (now-w.openedAt)/100) {
		t.Gap, t.Last = time.Duration(gap), a.node
	}
	w.openedAt = now
	if r.next != nil {
		r.next.arrivals.opened(now)
	}
	cfg.Meter.Closed(cfg, t)
}

// applied tells the Meter of a contribution in async mode, which is a round of its own. Work on it
// began at begin.
func (w *stopwatch) applied(cfg *Config, begin int64, c *Contribution) {
	if cfg.Meter == nil {
		return
	}
	now, first := cfg.clock(), c.Arrived
	if first == 0 {
		first = begin
	}
	cfg.Meter.Closed(cfg, Timing{Round: c.Seq - 1, Node: c.Node, At: now, Duration: time.Duration(now - first), Apply: time.Duration(now - begin), Update: time.Duration(now - begin)})
}

// The Meter is told of held memory once for each event and not for each slot, since most
// contributions are added as soon as they come.

// hold counts the memory of a contribution that has to wait in its slot.
func (w *stopwatch) hold(x *slot) {
	if b := x.payload.data; b != nil {
		x.held = int64(8 * len(b.words))
		w.held += x.held
	}
}

// let undoes hold.
func (w *stopwatch) let(x *slot) {
	w.held -= x.held
	x.held = 0
}

// tellHeld tells the Meter how much contributions hold now.
func (w *stopwatch) tellHeld(cfg *Config) {
	if w.held != 0 && cfg.Meter != nil {
		cfg.Meter.Hold(w.held)
		w.held = 0
	}
}
