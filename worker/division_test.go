package worker

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/sampler"
)

// partitionFeed is a DividedFeed whose batches nobody reads.
type partitionFeed struct{ *Partition }

func (partitionFeed) Begin(context.Context, int, int) error     { return nil }
func (partitionFeed) Next(context.Context) (n []int, err error) { return nil, nil }
func (partitionFeed) Close() error                              { return nil }

// dividedWorker is a division of 20 examples, 2 a step, over two workers.
func dividedWorker(t *testing.T, rank int, used func(Used)) *division {
	t.Helper()
	p, err := NewPartition(20, 2, 2, rank)
	if err != nil {
		t.Fatal(err)
	}
	d := newDivision(partitionFeed{p}, used, true)
	d.begin(seat{rank, 2}, position{}, past{}, feedCurrent)
	return d
}

// advance does steps of which the feed brings what the division says.
func (d *division) advance(steps int) {
	for range steps {
		d.used += d.divided.Used(d.seat.rank, d.step+1) - d.divided.Used(d.seat.rank, d.step)
		d.step++
	}
}

// Whatever workers come and go, the examples of a pass are used once: those of the division before
// a change, and those of the one after it.
func TestADivisionUsesEachExampleOnce(t *testing.T) {
	var all []int
	d := dividedWorker(t, 0, func(u Used) { all = append(all, u.Examples...) })
	d.advance(3)
	arrival, err := d.arrival(7, 3, false)
	if err != nil || arrival.Used != 6 || arrival.Change != 7 || arrival.Step != 3 {
		t.Fatalf("after 3 steps of 2 examples: got the arrival %+v (%v)", arrival, err)
	}
	cuts := []sampler.Cut{{Parts: 2, Used: []int{6, 6}}}
	if err := d.take(kvstore.Division{Steps: 3, Step: 3, Cuts: cuts, Order: arrival.Order}, 3, seat{1, 4}); err != nil {
		t.Fatal(err)
	}
	if d.state != feedOutdated || d.step != 0 || d.stepOfPass() != 3 || len(all) != 12 {
		t.Errorf("after the change: %v with a feed in state %d and %d examples told, want it outdated at step 3, and 12", d, d.state, len(all))
	}
	if err := d.divide(0); err != nil {
		t.Fatal(err)
	}
	if got := d.nextGlobal(); got != 8 {
		t.Errorf("the next step uses %d examples on all workers, want the 8 that are left", got)
	}
	d.advance(1)
	if !d.over() {
		t.Errorf("%v: the division is not over", d)
	}
	d.tellAllUsed()
	slices.Sort(all)
	if want := upTo(20); !slices.Equal(all, want) {
		t.Errorf("used %v, want each of 20 once", all)
	}
	d.nextPass(false)
	if d.String() != "epoch 1 step 0" || d.state != feedOutdated || !slices.Equal(d.earlier, []uint64{2, 2, 2, 2}) {
		t.Errorf("the next pass begins at %v with a feed in state %d, and %v used before", d, d.state, d.earlier)
	}
}

// A worker does not arrive with another number of examples than its feed says: the scheduler would
// hand some out twice, or none.
func TestAFeedThatCountsOtherwiseDoesNotArrive(t *testing.T) {
	d := dividedWorker(t, 1, nil)
	d.advance(2)
	d.used--
	if _, err := d.arrival(1, 2, false); err == nil || !strings.Contains(err.Error(), "epoch 0 step 2: feed worker.partitionFeed returned 3 examples in 2 steps of the division, and its Used says 4") {
		t.Errorf("got the error %v", err)
	}
}

// A division that is not the one that all were in is refused.
func TestADivisionOfAnotherStepIsRefused(t *testing.T) {
	for want, next := range map[string]kvstore.Division{
		"the new division is of epoch 1 after 2 steps": {Epoch: 1, Steps: 2},
		"the new division is of epoch 0 after 3 steps": {Steps: 3},
		"and that of the job \"\"":                     {Steps: 2},
		"want one of 2 parts after":                    {Steps: 2, Order: sampler.Permutation.String(), Cuts: []sampler.Cut{{Parts: 3}}},
	} {
		d := dividedWorker(t, 0, nil)
		d.advance(2)
		if err := d.take(next, 2, seat{0, 3}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got the error %v, want one with %q", next, err, want)
		}
	}
}
