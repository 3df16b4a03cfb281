package kvstore

import (
	"context"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/exact"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A clipper finds the factor by which the gradients of a step are clipped
// (optim.Config.ClipGlobalNorm), and brings it to the servers, which hold the step's rounds until
// then. Each worker does so for itself; all find the same factor, because the sums that are held do
// not change, and their squares are added without rounding.
type clipper struct {
	cfg      *settings
	requests *requests
	member   *membership
	keys     *keyTable
	rules    *roundRules
}

// A clipStep is one call of ClipGlobalNorm. Its slices are by shard, those of the keys one after the
// other.
type clipStep struct {
	keys    []*key
	heads   []wire.Clip
	answers []wire.Clipped
	op      *op
	// asked are the shards that the op asks, of all.
	asked []int
	// norm and factor are what the rounds are decided by, once found.
	norm, factor float64
}

// ClipGlobalNorm clips the gradients of a step.
func (c *clipper) ClipGlobalNorm(ctx context.Context, names ...string) (norm float64, err error) {
	const verb = "clip the global norm"
	optimizer := c.rules.optimizer()
	if optimizer == nil || optimizer.ClipGlobalNorm == 0 {
		return 0, fmt.Errorf("kvstore: %s: %w: the optimizer has no ClipGlobalNorm; set one with it first", verb, ErrUnsupported)
	}
	if c.member.joining.Load() {
		return 0, c.member.notYet(verb)
	}
	s, err := c.step(verb, names)
	if err != nil {
		return 0, err
	}
	generation := c.member.Generation()
	if err := s.ask(ctx, verb, c.requests); err != nil {
		return 0, err
	}
	known, err := s.find(verb, optimizer)
	if err != nil {
		return 0, err
	}
	if !known {
		s.done()
		return math.NaN(), nil
	}
	if s.open() {
		if err := s.ask(ctx, verb, c.requests); err != nil {
			return 0, err
		}
	}
	// A worker that is lost together with a server may be in one sum and not in another one that
	// is made again: then those who asked before and after find other factors.
	if err := s.compare(verb); err != nil && c.member.Generation() == generation {
		return 0, err
	}
	s.done()
	return s.norm, nil
}

// step makes the requests for the squares of all shards.
func (c *clipper) step(verb string, names []string) (*clipStep, error) {
	s := &clipStep{}
	named := map[string]bool{}
	for _, name := range names {
		k := c.keys.get(name)
		switch {
		case k == nil:
			return nil, keyError(verb, name, ErrUnknownKey, "call Init first")
		case k.rule == wire.RuleAverage:
			return nil, keyError(verb, name, ErrUnsupported, "it is averaged, and has no gradient")
		case named[name]:
			return nil, keyError(verb, name, ErrConflict, "it is named twice")
		}
		named[name] = true
		s.keys = append(s.keys, k)
		round := k.pushes.clipRound()
		for i := range k.shards {
			s.heads = append(s.heads, wire.Clip{Origin: k.origin(i, 0), Round: round, WaitMillis: c.cfg.waitMillis()})
			s.asked = append(s.asked, len(s.asked))
		}
	}
	s.answers = make([]wire.Clipped, len(s.heads))
	return s, nil
}

// ask sends the requests of the shards that are to be asked.
func (s *clipStep) ask(ctx context.Context, verb string, r *requests) error {
	s.op = newOp(r, verb, "", len(s.asked))
	at, next := 0, 0
	for _, k := range s.keys {
		for i := range k.shards {
			if next < len(s.asked) && s.asked[next] == at {
				c := &s.op.calls[next]
				c.aim(k, i)
				c.request, c.origin, c.answer = &s.heads[at], &s.heads[at].Origin, &s.answers[at]
				next++
			}
			at++
		}
	}
	return s.op.run(ctx)
}

// find finds the step's norm and factor: as they were decided before, or from the squares. It is
// false where all rounds have closed and no shard knows how.
func (s *clipStep) find(verb string, optimizer *optim.Config) (known bool, err error) {
	var sum exact.Sum
	closed := true
	for i := range s.answers {
		a := &s.answers[i]
		if a.Decided {
			s.norm, s.factor, known = a.Norm, a.Factor, true
		}
		if a.Closed || a.Decided {
			continue
		}
		closed = false
		squares, ok := exact.OfDigits(a.Squares)
		if !ok {
			return false, fmt.Errorf("kvstore: %s: %w: %s: got squares of %d digits, want %d", verb, ErrSize, s.op.calls[i].peer(), len(a.Squares), exact.Limbs)
		}
		sum.Merge(&squares)
	}
	if closed || known {
		return known, nil
	}
	s.norm = math.Sqrt(sum.Total())
	s.factor = optimizer.ClipFactor(s.norm)
	return true, nil
}

// open makes the requests that decide the rounds which are still open. It returns false if there are
// none.
func (s *clipStep) open() bool {
	s.asked = s.asked[:0]
	for i := range s.answers {
		if a := &s.answers[i]; a.Decided || a.Closed {
			continue
		}
		s.heads[i].Decides, s.heads[i].Norm, s.heads[i].Factor = true, s.norm, s.factor
		s.asked = append(s.asked, i)
	}
	return len(s.asked) > 0
}

// compare returns an error if a shard was decided by another factor.
func (s *clipStep) compare(verb string) error {
	at := 0
	for _, k := range s.keys {
		for i := range k.shards {
			if a := &s.answers[at]; a.Decided && math.Float64bits(a.Factor) != math.Float64bits(s.factor) {
				return keyError(verb, k.name, ErrConflict, "shard %d, round %d: this worker found the factor %v for a norm of %v, but rank %d had brought %v for %v; all workers must name the same keys",
					i, s.heads[at].Round, s.factor, s.norm, a.Rank, a.Factor, a.Norm)
			}
			at++
		}
	}
	return nil
}

// done counts the rounds as clipped.
func (s *clipStep) done() {
	at := 0
	for _, k := range s.keys {
		k.pushes.clipped(s.heads[at].Round)
		at += len(k.shards)
	}
}
