package worker

import (
	"fmt"
	"iter"
	"slices"

	"github.com/paragon-train/paragon/sampler"
)

// A Partition says which examples of a data set this worker uses in which step: the same number in
// each step of a segment but the last ones, and as many steps on every worker. The order is
// sampler.Permutation, unless an option says another one.
type Partition struct {
	length  int
	opts    []sampler.Option
	rank    int
	workers int
	cuts    []sampler.Cut
	own     *sampler.Sampler
	// shares are the examples of each part's share, and longest those of the longest, rank 0's.
	shares  []int
	longest int
	// segments are at least one: the first from step 0 on, and First rises.
	segments []Segment
	steps    int
	perRun   int
}

// NewPartition divides length examples over workers, of which each uses perStep in a step. The rank
// of a worker that joins a running job is not below workers; Fit divides again when it counts.
func NewPartition(length, perStep, workers, rank int, opts ...sampler.Option) (*Partition, error) {
	if perStep < 1 {
		return nil, fmt.Errorf("worker: partition: got %d examples a step, want at least 1", perStep)
	}
	p := &Partition{length: length, segments: []Segment{{0, perStep}}, perRun: perStep}
	p.opts = append([]sampler.Option{sampler.Ordered(sampler.Permutation)}, opts...)
	return p, p.Divided(rank, max(workers, rank+1), nil)
}

// Order implements OrderedFeed.
func (p *Partition) Order() sampler.Order { return p.own.Order() }

// Reorder implements OrderedFeed. Segments begin anew.
func (p *Partition) Reorder(o sampler.Order) error {
	before := p.opts
	p.opts = append(slices.Clone(before), sampler.Ordered(o))
	err := p.Divided(p.rank, p.workers, p.cuts)
	if err != nil {
		p.opts = before
		return fmt.Errorf("worker: partition: %w", err)
	}
	return nil
}

// Divided implements DividedFeed.
func (p *Partition) Divided(rank, workers int, cuts []sampler.Cut) error {
	own, err := sampler.Divide(p.length, cuts, workers, rank, p.opts...)
	if err != nil {
		return err
	}
	// Rank 0 has the longest share.
	longest, err := sampler.Divide(p.length, cuts, workers, 0, p.opts...)
	if err != nil {
		return err
	}
	p.own, p.rank, p.workers, p.cuts, p.longest = own, rank, workers, cuts, longest.Len()
	p.segments, p.shares = []Segment{{0, p.PerStep()}}, make([]int, workers)
	for i := range p.shares {
		p.shares[i] = p.part(i).Len()
	}
	p.count()
	return nil
}

// Resize implements BatchFeed. A second call for the same step replaces the first; one for a step
// before a segment that began later is an error.
func (p *Partition) Resize(step, perStep int) error {
	last := p.segments[len(p.segments)-1]
	switch {
	case perStep < 1:
		return fmt.Errorf("worker: partition: resize at step %d: got %d examples a step, want at least 1", step, perStep)
	case step < last.First || step > p.steps:
		return fmt.Errorf("worker: partition: resize at step %d: want a step from %d, where the last segment begins, to %d, the end of the division", step, last.First, p.steps)
	case step == last.First:
		p.segments[len(p.segments)-1].PerStep = perStep
	case perStep != last.PerStep:
		p.segments = append(p.segments, Segment{step, perStep})
	}
	p.count()
	return nil
}

// count finds out how many steps the division has, those of the worker with the most examples.
func (p *Partition) count() {
	last := p.segments[len(p.segments)-1]
	left := max(0, p.longest-p.offset(last.First))
	p.steps = last.First + left/last.PerStep
	if left%last.PerStep > 0 {
		p.steps++
	}
}

// offset is how many examples a worker that does not run out has used after so many steps; no more
// than the longest share has.
func (p *Partition) offset(steps int) int {
	used := 0
	for i, s := range p.segments {
		until := steps
		if i+1 < len(p.segments) {
			until = min(until, p.segments[i+1].First)
		}
		n := max(0, until-s.First)
		// The division keeps the product from overflowing.
		if room := p.longest - used; n > room/s.PerStep {
			return p.longest
		}
		used += n * s.PerStep
	}
	return used
}

// Segments implements BatchFeed.
func (p *Partition) Segments() []Segment { return slices.Clone(p.segments) }

// Steps is the number of steps of the division, that of the worker with the most examples.
func (p *Partition) Steps() int { return p.steps }

// Length implements BatchFeed.
func (p *Partition) Length() int { return p.length }

// Len is the number of this worker's examples in the division.
func (p *Partition) Len() int { return p.own.Len() }

// PerStep is how many examples a step of the last segment uses, but for the last ones.
func (p *Partition) PerStep() int { return p.segments[len(p.segments)-1].PerStep }

// SetRun divides steps into runs of at most perRun examples: what Use of a BatchFeed calls.
func (p *Partition) SetRun(perRun int) error {
	if perRun < 1 {
		return fmt.Errorf("worker: partition: got %d examples a run, want at least 1", perRun)
	}
	p.perRun = perRun
	return nil
}

// PerRun implements BatchFeed.
func (p *Partition) PerRun() int { return p.perRun }

// From returns this worker's examples in an epoch from a step of the division on.
func (p *Partition) From(epoch, step int) iter.Seq[int] { return p.own.From(epoch, p.offset(step)) }

// Runs returns the numbers of examples of this worker's runs from a step of the division on. A step
// in which it has none has one run of 0.
func (p *Partition) Runs(step int) iter.Seq[int] {
	// The sequence may be read on another goroutine, while this partition changes.
	now := *p
	now.segments = slices.Clone(p.segments)
	return func(yield func(int) bool) {
		for step := step; step < now.steps; step++ {
			for _, n := range runsOf(now.ownUsed(step+1)-now.ownUsed(step), now.perRun) {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// runsOf divides the examples of a step into the fewest runs of at most perRun examples, which
// differ by at most one.
func runsOf(examples, perRun int) []int {
	runs := make([]int, max(1, examples/perRun+min(1, examples%perRun)))
	for i := range runs {
		runs[i] = examples / len(runs)
		if i < examples%len(runs) {
			runs[i]++
		}
	}
	return runs
}

// Batches returns the examples of this worker's runs in an epoch from a step of the division on:
// one list for each call of Next. A list is valid until the next one.
func (p *Partition) Batches(epoch, step int) iter.Seq[[]int] {
	runs, own, used := p.Runs(step), p.own, p.offset(step)
	return func(yield func([]int) bool) {
		cursor := own.Cursor(epoch, used)
		var list []int
		for n := range runs {
			list = slices.Grow(list[:0], n)[:n]
			cursor.Next(list)
			if !yield(list) {
				return
			}
		}
	}
}

// Used implements DividedFeed. It is cheap: Fit asks for every part in each step, while the feed
// reads ahead.
func (p *Partition) Used(part, steps int) int {
	if part < 0 || part >= len(p.shares) {
		return 0
	}
	return min(p.shares[part], p.offset(steps))
}

func (p *Partition) ownUsed(steps int) int { return min(p.own.Len(), p.offset(steps)) }

// Examples implements DividedFeed.
func (p *Partition) Examples(epoch, part, n int) []int {
	share := p.part(part)
	if share == nil {
		return nil
	}
	list := make([]int, max(0, min(n, share.Len())))
	share.Cursor(epoch, 0).Next(list)
	return list
}

// part is the share of a part; nil: there is no such part.
func (p *Partition) part(part int) *sampler.Sampler {
	share, err := sampler.Divide(p.length, p.cuts, p.workers, part, p.opts...)
	if err != nil {
		return nil
	}
	return share
}
