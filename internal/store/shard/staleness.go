package shard

// A staleness is the age of the value from which a worker computed its newest contribution. Async
// mode only.
type staleness struct {
	// pulled says that the worker has pulled a value; without that nothing is known of its age.
	pulled bool
	// round is the number of rounds that the pulled value contained, and ownRounds how many of
	// them were the worker's own.
	round, ownRounds uint64
	// missed is the number of rounds of others between that pull and the worker's newest
	// contribution.
	missed uint64
}

// push records a contribution that becomes round number rounds, after own contributions of the
// worker.
func (a *staleness) push(rounds, own uint64) {
	if !a.pulled {
		return
	}
	mine := own - min(a.ownRounds, own)
	since := rounds - min(a.round, rounds)
	a.missed = since - min(mine, since)
}

// pull records that the worker has got the value of so many rounds, own of which are its own, and
// returns the age of the one before at its newest contribution.
func (a *staleness) pull(rounds, own uint64) (missed uint64) {
	*a = staleness{pulled: true, round: rounds, ownRounds: own, missed: a.missed}
	return a.missed
}
