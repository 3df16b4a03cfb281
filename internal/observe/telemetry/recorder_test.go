package telemetry

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// All scores of an evaluation reach the scheduler in one record, also if the record is made while
// they are set.
func TestNoRecordHasAPartOfAnEvaluation(t *testing.T) {
	var r Recorder
	const records = 5000
	var begun atomic.Int64 // records
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range int64(records) {
			for begun.Load() <= i {
				runtime.Gosched()
			}
			r.SetTogether(func() {
				r.Set(TestLoss, float64(i))
				r.Set(TestAccuracy, float64(i))
				r.SetScores([]Score{{"top5", float64(i)}})
			})
		}
	}()
	for range records {
		begun.Add(1)
		var loss, accuracy, top5 float64
		values := r.Values()
		for _, s := range values.Scores {
			top5 = s.Value
		}
		for _, s := range values.Samples {
			switch s.Metric {
			case TestLoss:
				loss = s.Value
			case TestAccuracy:
				accuracy = s.Value
			}
		}
		if loss != accuracy || loss != top5 {
			t.Errorf("a record has the loss of evaluation %.0f, the accuracy of evaluation %.0f and the top5 of evaluation %.0f", loss, accuracy, top5)
		}
	}
	<-done
}
