package searchpage

import (
	"math"
	"reflect"
	"testing"

	"github.com/paragon-train/paragon/internal/observe/page"
)

// A page that nobody looks at must not slow reports down, and its notes are bounded.
func TestNotesOfATrialAreBounded(t *testing.T) {
	var n Notes
	for range 1000 {
		n.Add(3, page.SearchNote{Kind: "decision"})
	}
	if notes, earlier := n.of(3); len(notes) > maxNotes || len(notes)+earlier != 1000 {
		t.Errorf("1000 notes: %d are there and %d counted, want at most %d and 1000 in all", len(notes), earlier, maxNotes)
	}
}

// A page is told of all trials first, and then of those that have changed.
func TestAPageIsToldOnceOfEachChange(t *testing.T) {
	var n Notes
	n.Changed(1)
	if f := n.take(); !f.all {
		t.Error("the first time not all trials are told")
	}
	if f := n.take(); f.all || len(f.changed) > 0 {
		t.Errorf("nothing has changed: got %+v", f)
	}
	n.Changed(2)
	if f := n.take(); f.all || !reflect.DeepEqual(f.changed, map[int]bool{2: true}) {
		t.Errorf("trial 2 has changed: got %+v", f)
	}
	n.AllChanged()
	if f := n.take(); !f.all {
		t.Error("all may have changed, and not all are told")
	}
}

// The decision that ended an attempt is in the trial's row until the next attempt.
func TestARowHasTheDecisionThatEndedItsAttempt(t *testing.T) {
	var n Notes
	row := func() page.SearchRow {
		rows := []page.SearchRow{{Number: 4, StopStep: -1}}
		n.addStops(rows)
		return rows[0]
	}
	n.Start(4, page.SearchNote{Kind: "start"})
	n.Stop(4, page.SearchNote{Kind: "decision"}, page.SearchNote{Step: 7, Value: 0.5, Bound: 0.75})
	if x := row(); x.StopStep != 7 || x.StopValue != 0.5 || x.StopBound != 0.75 {
		t.Errorf("after the decision: %+v", x)
	}
	n.Start(4, page.SearchNote{Kind: "start"})
	if x := row(); x.StopStep != -1 {
		t.Errorf("in the next attempt: %+v", x)
	}
}

// Only values that are better than all before are progress. One that is not finite never is.
func TestProgressIsWhatIsBetterThanAllBefore(t *testing.T) {
	var n Notes
	for i, score := range []float64{math.Inf(-1), -3, -5, -3, -2} {
		n.Value(i, page.Precise(i), -score, score)
	}
	if got := n.take().progress.Trial; !reflect.DeepEqual(got, []int{1, 4}) {
		t.Errorf("progress is by trials %v, want 1 and 4", got)
	}
}
