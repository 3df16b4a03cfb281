package worker

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/paragon-train/paragon/data"
)

// A badJob is the tallies of some workers, by rank; nil: that rank is gone.
type badJob []*badTally

// step lets each worker read so many damaged examples and all agree; an agreement that is not known
// changes nothing.
func (j badJob) step(t *testing.T, known bool, bad ...int) (errs []error) {
	t.Helper()
	var sum, ones float32
	for rank, b := range j {
		for range bad[rank] {
			b.leaveOut([]*data.BadExampleError{{Example: rank, Err: errors.New("cut")}}, 0)
		}
		flags := make([]float32, lanes)
		b.lanes(flags, rank)
		sum, ones = sum+flags[laneBad], ones+1
	}
	for _, b := range j {
		errs = append(errs, b.heard(verdict{known: known, bad: float64(sum / ones)}, len(j)))
	}
	return errs
}

func newBadJob(workers, budget int) badJob {
	j := make(badJob, workers)
	for r := range j {
		j[r] = &badTally{budget: budget, logger: slog.New(slog.DiscardHandler)}
	}
	return j
}

func (j badJob) want(t *testing.T, count int) {
	t.Helper()
	for rank, b := range j {
		if b.told != count || b.count() != count {
			t.Errorf("rank %d: %d damaged examples are told and %d counted, want %d", rank, b.told, b.count(), count)
		}
	}
}

// All workers know the same count after each step, whoever joins, leaves or becomes rank 0, and
// whether or not a step was agreed on.
func TestAllWorkersCountTheSameDamagedExamples(t *testing.T) {
	j := newBadJob(3, 100)
	j.step(t, true, 1, 0, 2)
	j.want(t, 3)
	j.step(t, false, 1, 1, 0) // told of with the next one
	j.step(t, true, 0, 0, 1)
	j.want(t, 6)
	j = append(j, newBadJob(1, 100)...) // joins
	j.step(t, true, 0, 1, 0, 1)
	j.want(t, 8)
	j = j[1:] // rank 0 leaves: another one is rank 0
	j.step(t, true, 0, 0, 1)
	j.want(t, 9)
	for _, b := range j {
		b.pass(1)
	}
	j.want(t, 0)
}

func TestTheOneTooManyEndsAllWorkers(t *testing.T) {
	j := newBadJob(3, 4)
	for rank, err := range j.step(t, true, 2, 0, 2) {
		if err != nil {
			t.Errorf("rank %d within the budget: %v", rank, err)
		}
	}
	for rank, err := range j.step(t, true, 0, 1, 0) {
		var many *BadBudgetError
		if !errors.As(err, &many) || many.Count != 5 || len(many.First) != []int{2, 1, 2}[rank] {
			t.Errorf("rank %d: got error %v, want 5 of 4, and its own named", rank, err)
		}
	}
}
