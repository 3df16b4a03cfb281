package shard

import (
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Meter gets what shards measure of their rounds. Several shards call it at once, each under its
// own mutex.
type Meter interface {
	// Now is the time in nanoseconds, by a clock that does not go back. Its zero may be
	// anywhere.
	Now() int64
	// Closed is called for each round that has closed here, when it has. A backup, which
	// follows another server's rounds, measures none.
	Closed(cfg *Config, t Timing)
	// Hold is called when the memory of contributions that wait for their turn or for their
	// round has grown by bytes, or (negative) shrunk.
	Hold(bytes int64)
}

// A Timing is what was measured of one round.
type Timing struct {
	Round    uint64        // its number; in async mode that of the contribution among its worker's, from 0
	Node     uint64        // in async mode, whose contribution it is; else 0
	At       int64         // when it closed, by the Meter's clock
	Duration time.Duration // from the first contribution to the close
	Apply    time.Duration // of it, adding the contributions up and updating the value
	Update   time.Duration // of Apply, what was done once the last contribution was there
	// Gap is the time between the last contribution and the last but one, for which the others
	// waited for the node Last. It is 0 in a round of one contribution, if the last two were
	// there when the round opened, and if it is less than a hundredth of the time since then:
	// of keys that workers exchange one after another the first one alone tells who is late.
	Gap  time.Duration
	Last uint64
}

// clock is the Meter's time; 0 without one.
func (s *Shard) clock() int64 {
	if s.cfg.Meter == nil {
		return 0
	}
	return s.cfg.Meter.Now()
}

// quickValues is the size, in values, up to which adding a contribution to a dense shard takes no
// longer than reading the clock.
const quickValues = 1024

// workBegins is the time, if there is work on the open round that is to be measured; else 0. In a
// shard that is quick it is only measured where it closes the round.
func (s *Shard) workBegins() int64 {
	r := &s.open
	closes := r.present == len(r.slots)
	ready := r.aggregated < len(r.slots) && (s.mode == wire.ModeAnyOrder && r.present > r.aggregated || r.slots[r.aggregated].seq != 0)
	if s.cfg.Meter == nil || !closes && (!ready || s.cfg.Form == wire.FormDense && s.n <= quickValues) {
		return 0
	}
	return s.clock()
}

// arrivals are the times at which a round's contributions came. One that came before the round
// opened counts as having come then.
type arrivals struct {
	first, lastButOne, last int64
	count                   int
	node                    uint64 // whose came last
	apply                   int64  // nanoseconds of work so far
}

// add records a contribution, in any order of times.
func (a *arrivals) add(node uint64, at int64) {
	switch {
	case a.count == 0:
		a.first, a.last, a.node = at, at, node
	case at >= a.last:
		a.lastButOne, a.last, a.node = a.last, at, node
	default:
		a.first = min(a.first, at)
		if a.count == 1 || at > a.lastButOne {
			a.lastButOne = at
		}
	}
	a.count++
}

// opened moves the contributions that came before the round opened to its opening.
func (a *arrivals) opened(at int64) {
	a.first, a.lastButOne, a.last = max(a.first, at), max(a.lastButOne, at), max(a.last, at)
}

// arrived records a node's contribution to one of the open rounds; at 0: now.
func (s *Shard) arrived(r *round, node uint64, at int64) {
	if s.cfg.Meter == nil {
		return
	}
	if at == 0 {
		at = s.clock()
	}
	if r == &s.open {
		at = max(at, s.openedAt)
	}
	r.arrivals.add(node, at)
}

// measureRound tells the Meter of the open round, which has closed now after work that began at
// begin.
func (s *Shard) measureRound(begin int64) {
	if s.cfg.Meter == nil {
		return
	}
	now, a := s.clock(), &s.open.arrivals
	t := Timing{Round: s.rounds - 1, At: now, Duration: time.Duration(now - a.first), Apply: time.Duration(a.apply + now - begin), Update: time.Duration(now - begin)}
	if gap := a.last - a.lastButOne; a.count > 1 && gap > 0 && (s.openedAt == 0 || gap >= (now-s.openedAt)/100) {
		t.Gap, t.Last = time.Duration(a.last-a.lastButOne), a.node
	}
	s.openedAt = now
	if s.next != nil {
		s.next.arrivals.opened(now)
	}
	s.cfg.Meter.Closed(&s.cfg, t)
}

// measureAsync tells the Meter of a contribution in async mode, which is a round of its own. Work
// on it began at begin.
func (s *Shard) measureAsync(begin int64, c *Contribution) {
	if s.cfg.Meter == nil {
		return
	}
	now, first := s.clock(), c.Arrived
	if first == 0 {
		first = begin
	}
	s.cfg.Meter.Closed(&s.cfg, Timing{Round: c.Seq - 1, Node: c.Node, At: now, Duration: time.Duration(now - first), Apply: time.Duration(now - begin), Update: time.Duration(now - begin)})
}

// hold counts the memory of a contribution that has to wait in its slot.
func (s *Shard) hold(x *slot) {
	if b := x.payload.data; b != nil {
		x.held = int64(8 * len(b.words))
		s.held += x.held
	}
}

// tellHeld tells the Meter how much contributions hold now.
func (s *Shard) tellHeld() {
	if s.held != 0 && s.cfg.Meter != nil {
		s.cfg.Meter.Hold(s.held)
		s.held = 0
	}
}
