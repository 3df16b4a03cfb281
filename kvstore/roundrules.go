package kvstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A roundRules is what this worker has set for the rounds to come: the optimizer that the servers
// apply, and the compression of its pushes.
type roundRules struct {
	cfg *settings
	// rank is this worker's, for log lines.
	rank func() int
	// closed reports whether the store is.
	closed func() bool

	// compress is read by every push, and never nil.
	compress atomic.Pointer[Compression]
	// warnedUncompressed says that warnUncompressed has logged its line.
	warnedUncompressed atomic.Bool

	// mu guards the fields below.
	mu sync.Mutex
	// set is the optimizer that this worker set; nil: none.
	set *optim.Config
	// saved is the optimizer in the file of the last Load on rank 0, until restoreRates has
	// used it.
	saved *optim.Config
	// warned is the last line logged by warnOfMisfit.
	warned string
}

func newRoundRules(cfg *settings, rank func() int, closed func() bool) *roundRules {
	r := &roundRules{cfg: cfg, rank: rank, closed: closed}
	none := Compression{}.withDefaults()
	r.compress.Store(&none)
	return r
}

// SetCompression compresses this worker's pushes from now on.
func (r *roundRules) SetCompression(_ context.Context, c Compression) error {
	if err := c.Validate(); err != nil {
		return err
	}
	c = c.withDefaults()
	if r.cfg.lossless && (c.Type != "none" || c.Pull != "none") {
		return fmt.Errorf("kvstore: set compression %v: %w: a store of type %q sends nothing; use device or a dist store", c, ErrUnsupported, r.cfg.kind)
	}
	if r.closed() {
		return fmt.Errorf("kvstore: set compression %v: %w", c, ErrClosed)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.compress.Store(&c)
	r.warnOfMisfit()
	return nil
}

// MeasuresNorms reports whether PushOptions.Measure may be asked for.
func (r *roundRules) MeasuresNorms() bool { return !r.cfg.async && !r.compress.Load().feedback() }

// compressionOf returns the compression of a key's pushes: none for averaged keys.
func (r *roundRules) compressionOf(k *key) Compression {
	if k.rule == wire.RuleAverage {
		return Compression{Type: "none"}
	}
	return *r.compress.Load()
}

// residualCompression is the current compression, as far as residuals depend on it.
func (r *roundRules) residualCompression() Compression { return r.compress.Load().forResiduals() }

// judgesNorms reports whether this worker compares norms with the guard's limits before it
// compresses: what compression leaves out stays in the residual, where no server could judge it.
func (r *roundRules) judgesNorms(c Compression) bool {
	return r.cfg.guard != nil && r.cfg.guard.Factor > 0 && c.feedback()
}

// optimizer returns the optimizer that this worker set; nil: none.
func (r *roundRules) optimizer() *optim.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.set
}

// setOptimizer notes the optimizer that the servers have. It returns the one in the file of the
// last Load, once.
func (r *roundRules) setOptimizer(cfg *optim.Config) (saved *optim.Config) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set = cfg
	r.warnOfMisfit()
	saved, r.saved = r.saved, nil
	return saved
}

// loaded notes the optimizer in the file of a Load, for the SetOptimizer that may follow. It
// returns the one that is set.
func (r *roundRules) loaded(saved *optim.Config) (now *optim.Config) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saved = nil
	if r.set == nil {
		r.saved = saved
	}
	return r.set
}

// preconditions reports whether the optimizer is one for which the servers divide gradients by
// their second moment before they take norms.
func (r *roundRules) preconditions() bool {
	o := r.newOptimizer()
	return o != nil && o.HasSecondMoment()
}

// newOptimizer returns an optimizer as it was set; nil: none was. SetOptimizer has checked that it
// can be made.
func (r *roundRules) newOptimizer() *optim.Optimizer {
	cfg := r.optimizer()
	if cfg == nil {
		return nil
	}
	o, err := optim.New(*cfg)
	if err != nil {
		return nil
	}
	return o
}

// warnOfMisfit logs, on rank 0, that compression and optimizer are a bad combination. The caller
// holds mu.
func (r *roundRules) warnOfMisfit() {
	if r.set == nil || r.rank() != 0 {
		return
	}
	if text := r.compress.Load().Warning(*r.set); text != "" && text != r.warned {
		r.warned = text
		r.cfg.logger.Warn("kvstore: " + text)
	}
}

// warnUncompressed logs, once, that a gradient cannot be encoded and is sent uncompressed.
func (r *roundRules) warnUncompressed(c Compression, k *key, shard int, round uint64) {
	if r.warnedUncompressed.Swap(true) {
		return
	}
	what := fmt.Sprintf("a gradient or residual reaches %d times the quantum of %v", maxQuanta, c)
	if c.Type == "fp16" {
		what = fmt.Sprintf("a gradient reaches %v, which fp16 rounds to infinity", fp16Overflow)
	}
	r.cfg.logger.Warn("kvstore: "+what+"; such shards are sent uncompressed (logged once)", "key", k.name, "shard", shard, "round", round, "rank", r.rank())
}
