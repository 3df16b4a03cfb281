package scheduler

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// A stop that needs a folder for checkpoints is refused only where workers say that they have none,
// and no worker says that it has one.
func TestAStopThatNeedsAFolderIsRefusedWhereWorkersHaveNone(t *testing.T) {
	const unsaid = -1
	for _, tc := range []struct {
		name    string
		workers [2]float64 // what each reports
		needs   bool
		refused bool
	}{
		{"no worker reports", [2]float64{unsaid, unsaid}, true, false},
		{"all have one", [2]float64{1, 1}, true, false},
		{"one has one", [2]float64{0, 1}, true, false},
		{"none has one", [2]float64{0, 0}, true, true},
		{"one has none, the other does not report", [2]float64{0, unsaid}, true, true},
		{"none has one, SIGUSR1", [2]float64{0, 0}, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j := newMeasuredJob(t, 2, 1)
			for i, x := range tc.workers {
				if x != unsaid {
					j.send(uint64(2+i), telemetry.Sample{Metric: telemetry.CheckpointFolder, Value: x})
				}
			}
			_, err := query[control.Done](j, control.Request{Op: control.OpCheckpointStop, Reason: "a person", NeedsFolder: tc.needs})
			if refused := err != nil; refused != tc.refused || refused && !strings.Contains(err.Error(), "--force") {
				t.Errorf("got %v, want a refusal: %t", err, tc.refused)
			}
			if why, _ := j.core.Stopping(); (why != "") == tc.refused {
				t.Errorf("the job stops for %q, want that it stops: %t", why, !tc.refused)
			}
		})
	}
}
