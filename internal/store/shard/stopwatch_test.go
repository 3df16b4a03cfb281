package shard

import (
	"testing"
	"time"
)

func TestAStopwatchMeasuresFromTheFirstContributionToTheClose(t *testing.T) {
	meter := &handClock{now: 1000}
	cfg := denseConfig(quickValues + 1)
	cfg.Meter = meter
	x := membershipOf(t, 0, 0)
	r, w := rounds{}, stopwatch{openedAt: 1000}
	r.begin(x.ordered())
	w.arrived(cfg, &r.open, true, node(0), 900)
	w.arrived(cfg, &r.open, true, node(1), 1500)
	meter.now = 1600
	w.closed(cfg, &r, 0, 1550)
	want := Timing{At: 1600, Duration: 600, Apply: 50, Update: 50, Gap: 500 * time.Nanosecond, Last: node(1)}
	if len(meter.rounds) != 1 || meter.rounds[0] != want {
		t.Errorf("got %+v, want %+v: what came before the round opened counts from then", meter.rounds, want)
	}
}

// In a quick shard the clock is read where a round closes, and not for each contribution.
func TestAQuickShardReadsNoClockForEachContribution(t *testing.T) {
	for _, tt := range []struct {
		name    string
		values  int
		present int
		reads   bool
	}{
		{"quick, one of two is there", quickValues, 1, false},
		{"quick, both are there", quickValues, 2, true},
		{"large, one of two is there", quickValues + 1, 1, true},
		{"large, none is there", quickValues + 1, 0, false},
	} {
		meter := &handClock{now: 7}
		cfg := denseConfig(tt.values)
		cfg.Meter = meter
		r := round{slots: make([]slot, 2), present: tt.present}
		for i := range tt.present {
			r.slots[i].seq = 1
		}
		w := stopwatch{}
		const anyOrder = false
		if got := w.begins(cfg, &r, anyOrder) != 0; got != tt.reads {
			t.Errorf("%s: reads the clock: %v, want %v", tt.name, got, tt.reads)
		}
	}
}
