package kvstore

import (
	"github.com/paragon-train/paragon/internal/shard"
	"github.com/paragon-train/paragon/internal/wire"
)

// A Guard keeps bad gradients out of the rounds: see WithGuard. Its zero value refuses what is not finite, no more.
//
// A contribution of which any value is NaN or infinite is refused. With Factor the norm of each contribution (Euclidean, over the shard,
// divided by the contribution's weight if that is above 0) is held against the median of the norms of the shard's recent contributions, of all
// workers: as it was when the round before closed, so that the same contributions have the same fate in every run. A norm of 0 is neither
// judged nor remembered. Keys of averages are looked at for what is not finite only.
type Guard struct {
	// Factor times the median is the largest norm that is taken as it is. Zero: norms are not looked at. A shard of few values
	// has norms that vary much: 10 is low, 100 keeps out what is broken.
	Factor float64
	// Clip scales a contribution with a larger norm down to that limit; otherwise it is refused.
	Clip bool
	// Window is how many norms the median is of. Zero: 128.
	Window int
	// Warmup is how many norms there must be before any is judged. Zero: 16.
	Warmup int
}

// Validate returns an error that names the field, the value and the rule.
func (g Guard) Validate() error { return shard.Guard(g).Validate() }

// WithGuard lets the servers look at every contribution, shard by shard. Without it what is NaN or infinite goes into the sum as it is.
//
//	kvstore.WithGuard(kvstore.Guard{})                          // refuse what is not finite
//	kvstore.WithGuard(kvstore.Guard{Factor: 100})               // and what has a norm of more than 100 times the usual
//	kvstore.WithGuard(kvstore.Guard{Factor: 20, Clip: true})    // scale that down
//
// A refused contribution counts as present with weight 0: its round closes over the others, whose mean is theirs alone; a round
// of which nothing is left leaves the value as it is. The servers' log names rank, host, key and step, Usage counts by worker, and the
// worker that pushed it finds a line in its own log when it pulls next, and the number in Caught. What the worker's examples were is
// used all the same: a step is not done again.
//
// Every worker gives the same guard, another one is ErrConflict. What was held as usual is not in a checkpoint: after a Load the
// measure begins anew, with Warmup. With compression by 2bit, 1bit or topk this worker looks at its gradients before they are compressed:
// what is not finite, or larger than the limit that came with the value it pulled last, stays out of its residual and travels as it is, for
// the servers to refuse or clip. A worker that has pushed a key eight times without a pull then pulls by itself to learn the limit.
// The look costs one pass over what comes in, a small part of adding it up.
func WithGuard(g Guard) Option {
	return func(s *settings) { s.guard = &g }
}

func (s *store) Caught(name string) uint64 {
	s.mu.Lock()
	k := s.keys[name]
	s.mu.Unlock()
	if k == nil {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	total := uint64(0)
	for _, n := range k.caught {
		total += n
	}
	return total
}

// noteCaught takes note of what shard i says that it has caught. The caller holds mu.
func (k *key) noteCaught(i int, v *wire.Value) {
	if v.Caught == 0 {
		return
	}
	if k.caught == nil {
		k.caught = make([]uint64, len(k.shards))
	}
	if v.Caught > k.caught[i] {
		k.s.logger.Warn("the servers' guard has refused or clipped gradients of this worker", "key", k.name, "shard", i,
			"rank", k.s.Rank(), "round", v.Round, "gradients", v.Caught-k.caught[i])
		k.caught[i] = v.Caught
	}
}

// pulledRows takes note of the answers that brought rows.
func (k *key) pulledRows(calls []call, values []wire.Value) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range calls {
		k.noteCaught(calls[i].shard, &values[calls[i].shard])
	}
}
