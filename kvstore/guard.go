package kvstore

import "github.com/paragon-train/paragon/internal/store/shard"

// A Guard keeps bad gradients out of the rounds: see WithGuard. Its zero value refuses only what is
// not finite.
//
// A contribution of which any value is NaN or infinite is refused. With Factor the norm of each
// contribution (Euclidean, over the shard, divided by the contribution's weight if that is above 0)
// is compared with the median norm of the shard's recent contributions from all workers. The median
// is that of the moment when the round before closed, so that every run judges the same
// contributions in the same way. A norm of 0 is neither judged nor remembered. Averaged keys are
// only checked for values that are not finite.
type Guard struct {
	// Factor times the median is the largest norm that is accepted unchanged. Zero: norms are
	// not judged. The norms of a shard with few values vary much: 10 is low, 100 keeps out only
	// what is clearly broken.
	Factor float64
	// Clip scales a contribution with a larger norm down to that limit; otherwise it is
	// refused.
	Clip bool
	// Window is the number of norms that the median is taken of. Zero: 128.
	Window int
	// Warmup is the number of norms that must have come before any is judged. Zero: 16.
	Warmup int
}

// Validate returns an error that names the field, the value and the rule.
func (g Guard) Validate() error { return shard.Guard(g).Validate() }
