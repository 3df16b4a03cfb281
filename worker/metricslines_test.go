package worker_test

import (
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/worker"
)

// What rank 0 prints at an epoch's end is what a search and launch --result read; no other rank
// prints it, whoever that is at the time.
func TestMetricsLinesAreReadByASearch(t *testing.T) {
	var out strings.Builder
	m := worker.NewMetricsLines(&out)
	m.Begin(worker.Run{Rank: 1, Workers: 2})
	m.Epoch(worker.EpochInfo{Loss: 9})
	m.Membership(worker.MembershipInfo{Rank: 0, Workers: 1})
	m.Epoch(worker.EpochInfo{Epoch: 1, Loss: 2.5})
	m.Epoch(worker.EpochInfo{Epoch: 2, Loss: math.Inf(1), Test: &worker.Scores{Accuracy: 0.75, Loss: 1.25}})
	m.End()
	want := []control.Metrics{
		{Step: 2, Values: map[string]float64{"loss": 2.5, "train_loss": 2.5}},
		{Step: 3, Values: map[string]float64{"accuracy": 0.75, "loss": 1.25, "train_loss": math.Inf(1)}},
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("got %q, want %d lines", lines, len(want))
	}
	for i, w := range want {
		if got, ok := control.ParseMetrics(lines[i]); !ok || got.Step != w.Step || !maps.Equal(got.Values, w.Values) {
			t.Errorf("%q: got %+v, %t, want %+v", lines[i], got, ok, w)
		}
	}
}
