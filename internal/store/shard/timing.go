package shard

import "time"

// A Timing is what was measured of one round.
type Timing struct {
	// Round is its number; in async mode that of the contribution among its worker's, from 0.
	Round uint64
	// Node is, in async mode, whose contribution it is; else 0.
	Node uint64
	// At is when it closed, by the Meter's clock.
	At int64
	// Duration is the time from the first contribution to the close; Apply is what adding the
	// contributions up and updating the value took of it, and Update what of Apply was done
	// once the last contribution was there.
	Duration, Apply, Update time.Duration
	// Gap is the time between the last contribution and the last but one, for which the others
	// waited for the node Last. It is 0 in a round of one contribution, if the last two were
	// there when the round opened, and if it is less than a hundredth of the time since then:
	// of keys that workers exchange one after another the first one alone tells who is late.
	Gap  time.Duration
	Last uint64
}

// arrivals are the times at which a round's contributions came. One that came before the round
// opened counts as having come then.
type arrivals struct {
	first, lastButOne, last int64
	count                   int
	// node is whose contribution came last.
	node uint64
	// apply is the work so far, in nanoseconds.
	apply int64
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
