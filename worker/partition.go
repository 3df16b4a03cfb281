package worker

import (
	"fmt"
	"iter"

	"github.com/paragon-train/paragon/sampler"
)

// A DividedFeed is a Feed whose examples can be shared anew in the middle of an epoch, when the number of workers changes. A Feed
// that embeds a *Partition and reads what From says is one.
//
// A division is what remains of an epoch after some cuts, shared by the workers. Steps, and the step of Begin, count from its
// start. Without cuts it is an epoch.
type DividedFeed interface {
	Feed
	// Divided makes this worker part rank of workers of what remains after the cuts. Fit calls it on every worker, also at the start
	// of an epoch that has another division than the last one; Begin follows. All of an epoch may have been used: then Steps is 0.
	Divided(rank, workers int, cuts []sampler.Cut) error
	// Used is how many examples of its share a part has used after so many steps of the division; all of them after Steps.
	Used(part, steps int) int
	// Examples are the first n examples of a part's share in an epoch, in the order in which they are read.
	Examples(epoch, part, n int) []int
}

// A Partition says which examples of a data set this worker uses in which step: the same number in each but the last ones, and as
// many steps on every worker.
type Partition struct {
	length, perStep int
	opts            []sampler.Option
	workers         int
	cuts            []sampler.Cut
	own             *sampler.Sampler
	steps           int
}

// NewPartition divides length examples over workers, of which each uses perStep in a step. The rank of a worker that joins a
// running job is not below workers; Fit divides again when it counts.
func NewPartition(length, perStep, workers, rank int, opts ...sampler.Option) (*Partition, error) {
	if perStep < 1 {
		return nil, fmt.Errorf("worker: partition: got %d examples a step, want at least 1", perStep)
	}
	p := &Partition{length: length, perStep: perStep, opts: opts}
	return p, p.Divided(rank, max(workers, rank+1), nil)
}

// Divided implements DividedFeed.
func (p *Partition) Divided(rank, workers int, cuts []sampler.Cut) error {
	own, err := sampler.Divide(p.length, cuts, workers, rank, p.opts...)
	if err != nil {
		return err
	}
	longest, err := sampler.Divide(p.length, cuts, workers, 0, p.opts...) // rank 0 has the longest share
	if err != nil {
		return err
	}
	p.own, p.workers, p.cuts = own, workers, cuts
	p.steps = (longest.Len() + p.perStep - 1) / p.perStep
	return nil
}

// Steps is the number of steps of the division, that of the worker with the most examples.
func (p *Partition) Steps() int { return p.steps }

// Len is the number of this worker's examples in the division.
func (p *Partition) Len() int { return p.own.Len() }

// PerStep is how many examples a step uses, but for the last ones.
func (p *Partition) PerStep() int { return p.perStep }

// From returns this worker's examples in an epoch from a step of the division on.
func (p *Partition) From(epoch, step int) iter.Seq[int] { return p.own.From(epoch, step*p.perStep) }

// Used implements DividedFeed.
func (p *Partition) Used(part, steps int) int {
	share := p.part(part)
	if share == nil {
		return 0
	}
	return min(share.Len(), steps*p.perStep)
}

// Examples implements DividedFeed.
func (p *Partition) Examples(epoch, part, n int) []int {
	share := p.part(part)
	if share == nil {
		return nil
	}
	list := make([]int, 0, max(0, min(n, share.Len())))
	for i := range share.Epoch(epoch) {
		if len(list) >= n {
			break
		}
		list = append(list, i)
	}
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
