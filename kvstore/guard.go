package kvstore

import (
	"github.com/paragon-train/paragon/internal/store/shard"
)

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

// WithGuard makes the servers judge every contribution, shard by shard. Without it NaN and infinity
// go into the sum.
//
//	kvstore.WithGuard(kvstore.Guard{})                          // refuse what is not finite
//	kvstore.WithGuard(kvstore.Guard{Factor: 100})               // and norms of more than 100 times the median
//	kvstore.WithGuard(kvstore.Guard{Factor: 20, Clip: true})    // scale larger norms down
//
// A refused contribution counts as present with weight 0: its round closes over the others, whose
// mean is theirs alone. If all contributions of a round are refused, the value does not change. The
// servers' log names rank, host, key and step; Usage counts by worker; the worker that pushed it
// gets a line in its own log with its next pull, and the number from Caught. The examples of a
// refused contribution count as used: the step is not repeated.
//
// Every worker gives the same guard; another one is ErrConflict. Checkpoints do not hold the
// median: after a Load it begins anew, with Warmup. With 2bit, 1bit or topk the worker judges its
// gradients before it compresses them: one that is not finite, or larger than the limit that came
// with the last pull, stays out of the residual and is sent uncompressed, for the servers to refuse
// or clip. A worker that has pushed a key eight times without a pull then pulls by itself to learn
// the limit. On the server the guard reads each payload once more, a small part of the cost of
// adding it up.
func WithGuard(g Guard) Option {
	return func(s *settings) { s.guard = &g }
}
