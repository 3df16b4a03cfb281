package worker

import (
	"fmt"

	"github.com/paragon-train/paragon/adapt"
)

// A batch is what a worker does in a step: runs of LocalBatch examples, Accumulation of them before
// the last one.
type batch struct {
	LocalBatch   int `json:"local_batch"`
	Accumulation int `json:"accumulation"`
}

func (b batch) perStep() int { return b.LocalBatch * (b.Accumulation + 1) }

// check is an error if no worker can take it.
func (b batch) check() error {
	if b.LocalBatch < 1 || b.LocalBatch > maxLocalBatch || b.Accumulation < 0 || b.Accumulation > maxAccumulation {
		return fmt.Errorf("the batch is %+v, want 1 to %d examples and an accumulation of 0 to %d", b, maxLocalBatch, maxAccumulation)
	}
	return nil
}

func (b batch) String() string {
	if b.Accumulation == 0 {
		return fmt.Sprintf("%d a worker", b.LocalBatch)
	}
	return fmt.Sprintf("%d × %d runs a worker", b.LocalBatch, b.Accumulation+1)
}

// split divides the examples of a step into the fewest equal runs of at most so many; rounding may
// add one for each run.
func split(perStep, most int) batch {
	runs := (perStep-1)/most + 1
	return batch{LocalBatch: (perStep-1)/runs + 1, Accumulation: runs - 1}
}

// splitWithin is split whose step has least to most examples if so many runs, or up to twice as
// many, can be equal.
func splitWithin(perStep, local, least, most int) batch {
	first := split(perStep, local)
	for runs := first.Accumulation + 1; runs <= 2*(first.Accumulation+1) && runs <= most; runs++ {
		b := batch{LocalBatch: min((perStep-1)/runs+1, most/runs), Accumulation: runs - 1}
		if b.perStep() >= least {
			return b
		}
	}
	return first
}

// batchLimits bound the batches of an adapting job. All but runs are the same on all workers.
type batchLimits struct {
	// configured are those of AdaptConfig.
	configured adapt.Limits
	// initial is the initial batch of all workers.
	initial int
	// runs is the most examples of a run that this worker can be asked for.
	runs int
}

// first is the batch with which a run of so many workers begins.
func (l batchLimits) first(workers int) batch {
	b := batch{LocalBatch: (l.initial-1)/workers + 1}
	if b.LocalBatch > l.runs {
		return split(b.LocalBatch, l.runs)
	}
	return b
}

// fit changes a batch if it is outside of the limits for so many workers. What it does depends on
// this worker's memory: of workers that run already, one decides for all.
func (l batchLimits) fit(b batch, workers int) batch {
	c := l.configured
	least := (l.initial-1)/workers + 1
	most := max(least, c.MaxBatch/workers)
	if workers == 1 && !c.Accumulation {
		most = least
	}
	if per := b.perStep(); per < least || per > most {
		local := b.LocalBatch
		per = min(max(per, least), most)
		if per < local || b.Accumulation == 0 && per <= l.runs {
			local = per
		}
		b = splitWithin(per, local, least, most)
	}
	// One worker goes beyond the initial batch by several runs alone: their difference is the
	// noise.
	if workers == 1 && b.Accumulation == 0 && b.LocalBatch > least {
		b = splitWithin(b.LocalBatch, (b.LocalBatch+1)/2, least, most)
	}
	if b.LocalBatch < c.MinLocal {
		if local, accumulation, ok := c.Nearest(l.initial, workers, b.perStep()); ok {
			b = batch{local, accumulation}
		}
	}
	return b
}
