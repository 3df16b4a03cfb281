// Package sampler divides the examples of a data set over the workers of a job.
//
// A part is a number from 0, such as a worker's rank; its share is the examples
// that it reads. An Order says in which order an epoch reads the examples; Split
// cuts that into parts. Permutation, which worker.Fit and kvstore.ElasticSampler use, mixes all
// examples before the cut. Blocks does it in whole blocks, for data in which
// single examples are dear to read. Contiguous, the default of Split, gives part
// p of n the same contiguous run of indices in every epoch, shuffled inside.
// An order depends on (seed, epoch), that of Contiguous also on the part, and on
// nothing else, so that a run repeats, and a worker that is restarted in the
// middle of an epoch can go on where it was.
//
//	s, err := sampler.Split(50_000, store.NumWorkers(), store.Rank(), sampler.Seed(1), sampler.Ordered(sampler.Permutation))
//	for e := range epochs {
//		for i := range s.Epoch(e) {
//			// train on example i
//		}
//	}
//
// With the default, Spread, the parts are disjoint and cover the data set, and
// their lengths differ by at most one: every example is read exactly once an
// epoch.
//
// When the number of workers changes in the middle of an epoch, Divide shares
// what is left of it. A Cut says how far the parts had come by then.
package sampler

import (
	"fmt"
	"iter"
)

// A Policy says what becomes of the length mod numParts examples that do not
// divide evenly.
type Policy int

const (
	// Spread gives one more example to each of the first parts: every example
	// is read exactly once an epoch. It is the default.
	Spread Policy = iota
	// Drop leaves the last examples of the order out (with Contiguous always the
	// same ones): all parts are equally long and no example is read twice.
	Drop
	// Pad repeats examples from the start of the order (with Contiguous, of the
	// data set) in the last parts: all parts are equally long and no example is
	// left out.
	Pad
)

// String returns the name of the policy.
func (p Policy) String() string {
	switch p {
	case Spread:
		return "spread"
	case Drop:
		return "drop"
	case Pad:
		return "pad"
	}
	return fmt.Sprintf("Policy(%d)", int(p))
}

// An Option changes how Split divides.
type Option func(*Sampler)

// Seed sets the seed of the order. The default is 0.
func Seed(seed uint64) Option { return func(s *Sampler) { s.seed = seed } }

// Epoch makes epochs count from first: Sampler.Epoch(e) then is epoch first+e
// of the run. The default is 0.
func Epoch(first int) Option { return func(s *Sampler) { s.first = first } }

// Remainder sets what happens to the examples that do not divide evenly.
func Remainder(p Policy) Option { return func(s *Sampler) { s.policy = p } }

// InOrder gives each part a contiguous run of indices, whatever the Order, and
// reads it from its first index to its last in every epoch, as evaluation does.
func InOrder() Option { return func(s *Sampler) { s.inOrder = true } }

// A Sampler gives the indices of one part. It never changes; its methods may
// be called from several goroutines at once.
type Sampler struct {
	// whole is the number of examples of an epoch, and remain that after the epoch's cuts.
	whole  int
	cuts   []Cut
	remain int
	part   int
	// start and size say which of the remaining examples are the part's: (start+i) mod remain,
	// i < size.
	start   int
	size    int
	seed    uint64
	first   int
	policy  Policy
	inOrder bool
	order   Order
}

// Split returns part number part, from 0, of numParts over length examples.
func Split(length, numParts, part int, opts ...Option) (*Sampler, error) {
	if length < 0 {
		return nil, fmt.Errorf("sampler: split: got length %d, want at least 0", length)
	}
	if numParts < 1 {
		return nil, fmt.Errorf("sampler: split %d examples: got %d parts, want at least 1", length, numParts)
	}
	// This is what the store of a worker that joins says until it counts.
	if part == numParts {
		return nil, fmt.Errorf("sampler: split %d examples: got part %d, want 0 to %d; if it is the rank of a worker that joins a running job, "+
			"it has none before it counts: call Ready of its store (kvstore.Elastic) first, or train with worker.Fit and a worker.Partition", length, part, numParts-1)
	}
	if part < 0 || part > numParts {
		return nil, fmt.Errorf("sampler: split %d examples: got part %d, want 0 to %d", length, part, numParts-1)
	}
	s := &Sampler{whole: length, remain: length, part: part, order: Contiguous}
	for _, opt := range opts {
		opt(s)
	}
	if s.policy < Spread || s.policy > Pad {
		return nil, fmt.Errorf("sampler: split %d examples: got remainder %v, want spread, drop or pad", length, s.policy)
	}
	if err := s.order.check(length); err != nil {
		return nil, fmt.Errorf("sampler: split %d examples: %w", length, err)
	}
	s.start, s.size = share(length, numParts, part, s.policy)
	return s, nil
}

// Order returns the order of the examples.
func (s *Sampler) Order() Order { return s.order }

// Len returns the number of indices in each epoch.
func (s *Sampler) Len() int { return s.size }

// Epoch returns the indices of epoch e in their order. Every use of the
// returned sequence starts from the beginning.
func (s *Sampler) Epoch(e int) iter.Seq[int] { return s.From(e, 0) }

// From returns the indices of epoch e without the first skip of them: what is
// left for a worker that resumes after skip examples.
func (s *Sampler) From(e, skip int) iter.Seq[int] {
	return func(yield func(int) bool) {
		var some [64]int
		cursor := s.Cursor(e, skip)
		for n := cursor.Next(some[:]); n > 0; n = cursor.Next(some[:]) {
			for _, i := range some[:n] {
				if !yield(i) {
					return
				}
			}
		}
	}
}
