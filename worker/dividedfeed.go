package worker

import (
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/sampler"
)

// A DividedFeed is a Feed whose examples can be shared anew in the middle of an epoch, when the
// number of workers changes. A Feed that embeds a *Partition and reads what From says is one.
//
// A division is what remains of an epoch after some cuts, shared by the workers. Steps, and the
// step of Begin, count from its start. Without cuts it is an epoch.
type DividedFeed interface {
	Feed
	// Divided makes this worker part rank of workers of what remains after the cuts. Fit calls
	// it on every worker, also at the start of an epoch that has another division than the last
	// one; Begin follows. All of an epoch may have been used: then Steps is 0.
	Divided(rank, workers int, cuts []sampler.Cut) error
	// Used is how many examples of its share a part has used after so many steps of the
	// division; all of them after Steps.
	Used(part, steps int) int
	// Examples are the first n examples of a part's share in an epoch, in the order in which
	// they are read.
	Examples(epoch, part, n int) []int
}

// A BatchFeed is a DividedFeed whose batch size may change between two steps, and whose steps may
// be taken in several runs (micro-batches), whose gradients the Trainer adds up
// (Trainer.Accumulate): Next brings one run. A Feed that embeds a *Partition and reads the examples
// of Batches has all methods but Use. FitConfig.Adapt needs one.
type BatchFeed interface {
	DividedFeed
	// Resize makes the steps of the division from step on use perStep examples of each worker.
	// All workers call it alike. After Divided all steps use the last number. Begin follows.
	Resize(step, perStep int) error
	// Segments are the numbers of examples of the division's steps so far.
	Segments() []Segment
	// Use makes runs of at most perRun examples, which go to these programs, one for each
	// device. Begin follows.
	Use(programs []*nn.Program, perRun int) error
	// PerRun is the perRun of Use; before its first call, what the feed was made for.
	PerRun() int
	// Length is the number of examples of a pass over the data, those of all workers.
	Length() int
}

// A Segment says that the steps of a division from First on use PerStep examples of each worker.
type Segment struct {
	First   int `json:"first"`
	PerStep int `json:"per_step"`
}
