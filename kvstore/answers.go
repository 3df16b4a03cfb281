package kvstore

import (
	"sync"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// An answers is what came with the values of a key that this worker has pulled: how old they were,
// what their rounds weighed, what the guard did and where its limits are, and measured norms.
//
// Pulls may end in another order than they began. What belongs to a round is replaced only by that
// of the same or a later one.
type answers struct {
	// mu guards the fields below.
	mu sync.Mutex
	// staleness is of the value pulled last.
	staleness Staleness
	// weight and examples are of the newest round, and weighed counts rounds up to it.
	weight   float64
	examples uint64
	weighed  uint64
	// caught is, by shard, how many of this worker's pushes the guard has refused or clipped.
	// It is made when first needed, as limits and norms are.
	caught []uint64
	limits *normLimits
	norms  []shardNorms
}

// A pulledNews is what of the answers of a pull concerns others than the key.
type pulledNews struct {
	missed uint64
	// caught has the shards whose guard has refused or clipped pushes since the last pull.
	caught []caughtNews
}

type caughtNews struct {
	shard     int
	round     uint64
	gradients uint64
}

// pulled records what the answers of a pull of all shards say. limited says that the guard has
// limits.
func (a *answers) pulled(values []wire.Value, limited bool) (news pulledNews) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.staleness = Staleness{}
	if limited {
		a.noteLimits(values)
	}
	a.noteNorms(values)
	a.noteWeight(values)
	for i := range values {
		a.noteCaught(i, len(values), &values[i], &news)
		v, s := &values[i], &a.staleness
		s.Round, s.Missed, s.Lead = max(s.Round, v.Round), max(s.Missed, v.Missed), max(s.Lead, v.Lead)
	}
	news.missed = a.staleness.Missed
	return news
}

// pulledRows records what the answers of a pull of rows from some of n shards say.
func (a *answers) pulledRows(calls []call, values []wire.Value) (news pulledNews) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range calls {
		a.noteCaught(calls[i].shard, len(values), &values[calls[i].shard], &news)
	}
	return news
}

// noteCaught records how many contributions shard i, of n, says it has refused or clipped. The
// caller holds mu.
func (a *answers) noteCaught(i, n int, v *wire.Value, news *pulledNews) {
	if v.Caught == 0 {
		return
	}
	if a.caught == nil {
		a.caught = make([]uint64, n)
	}
	if v.Caught > a.caught[i] {
		news.caught = append(news.caught, caughtNews{i, v.Round, v.Caught - a.caught[i]})
		a.caught[i] = v.Caught
	}
}

// noteWeight records the round's weight and examples. The caller holds mu.
func (a *answers) noteWeight(values []wire.Value) {
	rounds, weight, examples := uint64(0), 0.0, uint64(0)
	for i := range values {
		rounds, weight, examples = max(rounds, values[i].Round), max(weight, values[i].Weight), max(examples, values[i].Examples)
	}
	if rounds >= a.weighed {
		a.weight, a.examples, a.weighed = weight, examples, rounds
	}
}

// shardNorms are the norms of one shard.
type shardNorms struct {
	wire.Norms
	rounds uint64
}

// noteNorms records measured norms. The caller holds mu.
func (a *answers) noteNorms(values []wire.Value) {
	if a.norms == nil {
		measured := false
		for i := range values {
			measured = measured || values[i].Norms.Count != 0
		}
		if !measured {
			return
		}
		a.norms = make([]shardNorms, len(values))
	}
	for i := range values {
		if v := &values[i]; v.Round >= a.norms[i].rounds {
			a.norms[i] = shardNorms{v.Norms, v.Round}
		}
	}
}

// maxLimitAge is how many pushes may use the limits that came with one value. A worker that pulls
// after every push always has the servers' own limits. Norms drift slowly, so limits a few rounds
// old are close; a worker that seldom pulls makes one pull more in eight pushes.
const maxLimitAge = 8

// A normLimits holds the guard's limits on norms, by shard, as they came with the value pulled
// last.
type normLimits struct {
	// pushes were made since the limits came.
	pushes int
	norms  []float64
	rounds []uint64
}

// noteLimits takes the guard's limits. The caller holds mu.
func (a *answers) noteLimits(values []wire.Value) {
	if a.limits == nil {
		a.limits = &normLimits{norms: make([]float64, len(values)), rounds: make([]uint64, len(values))}
	}
	l := a.limits
	for i := range values {
		if v := &values[i]; v.Round >= l.rounds[i] {
			l.norms[i], l.rounds[i] = v.Limit, v.Round
		}
	}
	l.pushes = 0
}

// limitsUsable reports whether one more push may use the limits.
func (a *answers) limitsUsable() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limits != nil && a.limits.pushes < maxLimitAge
}

// allows reports whether a norm is within shard i's limit, or no limit is known.
func (a *answers) allows(i int, norm float64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limits == nil || a.limits.norms[i] == 0 || norm <= a.limits.norms[i]
}

// pushed counts a push that was made with the limits.
func (a *answers) pushed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.limits != nil {
		a.limits.pushes++
	}
}

// forget drops what belongs to rounds that no longer are, after a Load.
func (a *answers) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limits, a.norms = nil, nil
}

// newest is the staleness of the value pulled last.
func (a *answers) newest() Staleness {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.staleness
}

// newestRound is the weight and the examples of the newest round.
func (a *answers) newestRound() (weight float64, examples uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.weight, a.examples
}

// caughtInAll is how many pushes the guard has refused or clipped, over all shards.
func (a *answers) caughtInAll() (total uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.caught {
		total += n
	}
	return total
}

// newestNorms adds up the norms of the shards, in their order, so that every worker gets the same
// bits. It returns false where they are not of one round, or not of the same contributions: the
// guard has refused some to some shards and not to others.
func (a *answers) newestNorms() (Norms, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.norms) == 0 {
		return Norms{}, false
	}
	first := &a.norms[0]
	n := Norms{Rounds: first.rounds, Count: int(first.Count), Examples: first.Examples, Biased: first.Biased}
	for i := range a.norms {
		x := &a.norms[i]
		if x.Count == 0 || x.rounds != first.rounds || x.Count != first.Count || x.Biased != first.Biased || x.Examples != first.Examples {
			return Norms{}, false
		}
		n.MeanSqr += x.MeanSqr
		n.SqrMean += x.SqrMean
	}
	return n, true
}
