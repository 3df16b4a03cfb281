package worker

import (
	"fmt"
	"io"
	"math"
)

// MetricsLines is an Observer that prints the results of each epoch as a line of metrics, which
// launch tune and launch --result read:
//
//	accuracy=0.912300 loss=0.301200 train_loss=0.254100 step=3
//
// The step is the number of epochs that are done. Accuracy (0 to 1) and loss are those of the
// evaluation at the epoch's end; without one, loss is that of training and there is no accuracy,
// nor is there of examples without labels. Metrics of one's own come behind them by their names.
// Only rank 0 prints.
type MetricsLines struct {
	out  io.Writer
	rank int
}

// NewMetricsLines returns a MetricsLines that prints to out: os.Stdout in a program that a search
// runs. Errors of out are ignored.
func NewMetricsLines(out io.Writer) *MetricsLines { return &MetricsLines{out: out} }

// Begin takes the rank.
func (m *MetricsLines) Begin(run Run) { m.rank = run.Rank }

// Membership takes the rank, which may change.
func (m *MetricsLines) Membership(change MembershipInfo) { m.rank = change.Rank }

// Step prints nothing.
func (*MetricsLines) Step(StepInfo) {}

// Epoch prints the line.
func (m *MetricsLines) Epoch(e EpochInfo) {
	switch {
	case m.rank != 0:
	case e.Test == nil:
		fmt.Fprintf(m.out, "loss=%.6f train_loss=%.6f step=%d\n", e.Loss, e.Loss, e.Epoch+1)
	default:
		own, accuracy := "", ""
		if !math.IsNaN(e.Test.Accuracy) {
			accuracy = fmt.Sprintf("accuracy=%.6f ", e.Test.Accuracy)
		}
		for _, v := range e.Test.Metrics {
			own += fmt.Sprintf("%s=%.6f ", v.Name, v.Value)
		}
		fmt.Fprintf(m.out, "%sloss=%.6f %strain_loss=%.6f step=%d\n", accuracy, e.Test.Loss, own, e.Loss, e.Epoch+1)
	}
}

// End has nothing to do: each line was written when its epoch ended.
func (*MetricsLines) End() {}
