package worker

import (
	"context"

	"github.com/paragon-train/paragon/data"
)

// A Feed brings the batches of one worker to its programs' inputs. One that is a DividedFeed, too,
// lets workers come and go in the middle of an epoch; with another one a change waits for the end
// of the epoch. One that is an AheadFeed is asked for the next batch while a step computes.
type Feed interface {
	// Steps is the number of steps of an epoch: the same on every worker, so that all take part
	// in every round.
	Steps() int
	// Begin starts epoch e at the given step; the order of examples depends on (seed, epoch)
	// alone, so that a resumed run reads what the first one would have.
	Begin(ctx context.Context, epoch, step int) error
	// Next fills the inputs for the next step and returns how many examples count on each
	// device.
	Next(ctx context.Context) (counts []int, err error)
	Close() error
}

// A BadExampleFeed is a Feed that leaves damaged examples out of the losses, within a budget of the
// whole job: Fit adds up what all workers have left out in a pass over the data, logs each by name,
// and ends on all workers with a *BadBudgetError when it is more than the budget.
type BadExampleFeed interface {
	Feed
	// BadBudget is how many examples of a pass may be left out: the same on all workers.
	BadBudget() int
	// TakeBad returns those of the batches that Next has brought since the last call, and is
	// called like Next.
	TakeBad() []*data.BadExampleError
}

// A DescribedFeed is a Feed that says which data it reads. Checkpoints keep that, and a run does
// not go on from one with other data.
type DescribedFeed interface {
	Feed
	Data() DataInfo
}

// describe says what is known of a data set. Only one that has a fingerprint is described: others
// lie in the program's own memory.
func describe(dataset data.Dataset) (d DataInfo) {
	f, ok := dataset.(interface{ Fingerprint() string })
	if !ok {
		return d
	}
	d.Examples, d.Fingerprint = dataset.Len(), f.Fingerprint()
	if c, ok := dataset.(interface{ Decoder() string }); ok {
		d.Decoder = c.Decoder()
	}
	if c, ok := dataset.(interface{ Classes() []string }); ok {
		d.Classes = c.Classes()
	}
	return d
}

// dataOf describes what a feed reads.
func dataOf(feed Feed) (d DataInfo) {
	if f, ok := feed.(DescribedFeed); ok {
		d = f.Data()
	}
	return d
}
