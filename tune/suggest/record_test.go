package suggest

import (
	"math"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/tune"
)

// Feasible trials come before those that violate constraints, of which the least violating come
// first; complete ones before pruned ones; those by their steps and then by score.
func TestRecordsAreOrderedBestFirst(t *testing.T) {
	want := []record{
		{state: recordComplete, score: 3}, {state: recordComplete, score: -1}, {state: recordComplete, score: math.NaN()},
		{state: recordPruned, step: 9, score: 1}, {state: recordPruned, step: 9, score: 0}, {state: recordPruned, step: 3, score: 5},
		{state: recordPruned, violation: 0.1, score: 0}, {state: recordComplete, violation: 0.2, score: 9}, {state: recordComplete, violation: math.Inf(1), score: 99},
	}
	for i := range want {
		for j := range want {
			if got := want[i].compare(&want[j]); got != (i-j)/max(1, max(i-j, j-i)) {
				t.Errorf("record %d against %d: got %d", i, j, got)
			}
		}
	}
}

// A process takes at most MaxPoints trials: half of them the newest, the other half the best of the
// rest, in the order in which they ended. A pruned one has at most the median score, since its
// final value is not known.
func TestAProcessHasTheNewestAndTheBestTrials(t *testing.T) {
	m := newModel(tune.Space{tune.Real("x", 0, 1)})
	var done []*record
	for i, score := range []float64{5, 1, 9, 2, 3, 0, 4, 6} {
		done = append(done, &record{number: i, x: []float64{0.1 * float64(i)}, state: recordComplete, score: score, seq: uint64(i)})
	}
	var numbers []int
	data := (&GP{MaxPoints: 5}).choose(done)
	for _, r := range data {
		numbers = append(numbers, r.number)
	}
	if want := []int{0, 2, 4, 6, 7}; !slices.Equal(numbers, want) {
		t.Errorf("got trials %v, want %v", numbers, want)
	}
	data[1].state = recordPruned // with 9, the best score; the median of 3, 4, 5 and 6 is 5
	data[2].state, data[2].score = recordPruned, -1
	if _, scores := m.points(data); !slices.Equal(scores, []float64{5, 5, -1, 4, 6}) {
		t.Errorf("the scores are %v, want [5 5 -1 4 6]", scores)
	}
}
