package shard

import "math"

// A Want says which value a pull asks for.
type Want struct {
	Node uint64
	// Round is, in sync mode, how many rounds must have closed at least.
	Round uint64
	// Seq is, in async mode, how many contributions of Node the value contains, beside at least
	// Seq − Staleness of every other member: the guarantee of Ho et al. 2013 (SSP, section 3)
	// for the worker at clock Seq. NoBound as Staleness demands nothing of the others.
	Seq       uint64
	Staleness uint64
	// Clip asks for no value: the wait is over once the sum of round number Round, from 0, is
	// held, or that round has closed.
	Clip bool
}

// NoBound is the Staleness without a bound.
const NoBound = math.MaxUint64

// Turn returns the Want to wait for before a contribution that is Ahead is pushed again.
func Turn(c Contribution) Want {
	return Want{Node: c.Node, Round: max(c.Round, 1) - 1, Seq: c.Seq - 1, Staleness: NoBound}
}

// A Laggard is a member that a wait is waiting for.
type Laggard struct {
	Node uint64
	Rank uint32
	// Done is, in sync mode, the number of rounds, closed or open, that it has contributed to;
	// in async mode the number of its contributions.
	Done uint64
}
