package shardserver

import "testing"

// Reports are taken by placements, in their order; who reports when none is on its way sends.
func TestReportsOfOnePlacementGoTogether(t *testing.T) {
	var f filledReports
	report := func(placement uint64) bool {
		return f.add(filledReport{assignment: assignment{number: placement}})
	}
	if !report(1) || report(1) || report(2) {
		t.Error("not the first report alone is sent by whoever adds it")
	}
	for _, want := range []int{2, 1, 0} {
		if got := len(f.take()); got != want {
			t.Errorf("%d reports are taken, want %d", got, want)
		}
	}
	if !report(2) {
		t.Error("no one sends the next report")
	}
}
