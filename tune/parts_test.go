package tune

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"
)

// A trial is once in the queue, and trials that are queued again go ahead of those that wait.
func TestTrialsStartInTheOrderOfTheQueue(t *testing.T) {
	var q startQueue
	for _, n := range []int{1, 2, 1, 3} {
		q.add(n)
	}
	q.remove(2)
	q.remove(7)
	done := q.ahead()
	q.add(5)
	q.add(4)
	done()
	if want := []int{5, 4, 1, 3}; !slices.Equal(q.numbers, want) || !q.has(5) || q.has(2) {
		t.Errorf("got %v, want %v", q.numbers, want)
	}
}

// A resume undoes all that ended a study but that a pruner had enough.
func TestAResumeUndoesWhatEndedAStudy(t *testing.T) {
	s := stops{enough: "accuracy reached 0.9"}
	s.exhaust(&Event{Rule: "deadline of noon"})
	s.halt(&Event{Rule: "timeout of 1s", Error: "x"})
	s.resume()
	if want := (stops{enough: "accuracy reached 0.9"}); s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

// Of two reports the one that violates the constraints less is the better one, and of those that
// violate them alike the one with the better value.
func TestReportsAreRankedByConstraintsAndThenByValue(t *testing.T) {
	g := goals{metric: "loss", mode: Min, further: []string{"memory"}, constraints: []Constraint{{Metric: "memory", Bound: 8}}}
	report := func(loss, memory float64) *Report {
		return &Report{Value: loss, Metrics: MetricsOf(map[string]float64{"loss": loss, "memory": memory})}
	}
	for _, tc := range []struct {
		a, b *Report
		want bool
	}{
		{report(2, 8), report(1, 9), true},
		{report(1, 10), report(2, 9), false},
		{report(1, 8), report(2, 7), true},
		{report(math.NaN(), 8), report(2, 8), false},
		{report(2, 8), report(math.NaN(), 8), true},
	} {
		if got := g.outranks(tc.a, tc.b); got != tc.want {
			t.Errorf("%v outranks %v: got %v, want %v", tc.a.Metrics, tc.b.Metrics, got, tc.want)
		}
	}
	if got := g.lacks(MetricsOf(map[string]float64{"loss": 1})); got != "memory" {
		t.Errorf("a report of the loss alone lacks %q, want memory", got)
	}
	if _, _, err := g.choice(MetricsOf(map[string]float64{"a": 1, "b": 2})); !errors.Is(err, ErrNoMetric) {
		t.Errorf("the metric of two was chosen: %v", err)
	}
}

// A new trial takes as long as the median of those that ended; before one has, as long as the
// longest so far.
func TestAHistoryTellsHowLongATrialTakes(t *testing.T) {
	running := &Trial{State: Running, run: runState{active: true, since: 10 * time.Second, before: time.Second}}
	h := history{running, {State: Pruned, Elapsed: 3 * time.Second}}
	if got := h.trialTime(15 * time.Second); got != 6*time.Second {
		t.Errorf("with none that ended: got %v, want the 6s of the one that runs", got)
	}
	for _, d := range []time.Duration{5, 1, 2} {
		h = append(h, &Trial{State: Completed, Elapsed: d * time.Second})
	}
	if got := h.trialTime(15 * time.Second); got != 2*time.Second {
		t.Errorf("with three that ended: got %v, want 2s", got)
	}
	if got := h.rungAfter(4); got != 8 {
		t.Errorf("without a rung above step 4: got %d, want 8", got)
	}
}
