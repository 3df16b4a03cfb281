package metrics_test

import (
	"math"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/metrics"
)

// Three classes; the answers are 0, 2, 1, 2 for the labels 0, 1, 1, 2, and one row does not count.
var answers = metrics.Batch{Width: 3, Labels: []int32{0, 1, 1, -1, 2}, Loss: 0.5, Outputs: []float32{3, 2, 1, 0, 1, 2, 0, 5, 1, 9, 9, 9, 1, 1, 4}}

// Values are those of scikit-learn 1.5's functions for these answers, and the same however the rows
// are divided.
func TestMetricsHaveTheirFormulas(t *testing.T) {
	for _, c := range []struct {
		m    metrics.Metric
		want []float64
	}{
		{metrics.TopK{K: 1}, []float64{3. / 4}},
		{metrics.TopK{K: 2}, []float64{1}},
		{metrics.F1{Classes: 3}, []float64{(1 + 2./3 + 2./3) / 3, (1 + 1 + 0.5) / 3, (1 + 0.5 + 1) / 3}},
		{metrics.F1{Classes: 3, Average: "micro"}, []float64{3. / 4, 3. / 4, 3. / 4}},
		{metrics.F1{Classes: 3, Average: "binary"}, []float64{2. / 3, 1, 0.5}},
		{metrics.F1{Classes: 9}, []float64{(1 + 2./3 + 2./3) / 3, (1 + 1 + 0.5) / 3, (1 + 0.5 + 1) / 3}},
		{metrics.IoU{Classes: 3}, []float64{(1 + 0.5 + 0.5) / 3}},
		{metrics.Perplexity{}, []float64{math.Exp(0.5)}},
	} {
		for cut := range answers.Labels {
			sums := make([]float64, c.m.Sums())
			first, second := answers, answers
			first.Labels, second.Labels, second.Outputs = answers.Labels[:cut], answers.Labels[cut:], answers.Outputs[3*cut:]
			other := make([]float64, c.m.Sums())
			c.m.Add(sums, first)
			c.m.Add(other, second)
			for i, v := range other {
				sums[i] += v
			}
			for i, got := range c.m.Values(sums) {
				if math.Abs(got-c.want[i]) > 1e-12 {
					t.Errorf("%T%+v cut after %d rows: %s is %v, want %v", c.m, c.m, cut, c.m.Names()[i], got, c.want[i])
				}
			}
		}
	}
	if v := (metrics.TopK{K: 1}).Values(make([]float64, 2)); !math.IsNaN(v[0]) {
		t.Errorf("of nothing: got %v, want NaN", v)
	}
}

// Three examples with three labels each, of which the last no example has; one target is not known.
// The values are those of scikit-learn's f1_score, precision_score and recall_score with
// zero_division 0, and the same however the rows are divided.
func TestLabelF1HasItsFormula(t *testing.T) {
	all := metrics.Batch{Width: 3, Loss: 0.5,
		Targets: []float32{1, 0, 0, 1, 1, 0, 0, -1, 0},
		Outputs: []float32{2, 1, -1, -3, 4, -1, 0.5, 9, -2},
	}
	for _, c := range []struct {
		m    metrics.Metric
		want []float64
	}{
		{metrics.LabelF1{Labels: 3}, []float64{(0.5 + 2./3 + 0) / 3, (0.5 + 0.5 + 0) / 3, (0.5 + 1 + 0) / 3}},
		{metrics.LabelF1{Labels: 3, Average: "micro"}, []float64{4. / 7, 2. / 4, 2. / 3}},
		{metrics.LabelF1{Labels: 3, Average: "micro", Threshold: 3}, []float64{2. / 4, 1, 1. / 3}},
	} {
		for cut := range 4 {
			sums := make([]float64, c.m.Sums())
			first, second := all, all
			first.Targets, second.Targets, second.Outputs = all.Targets[:3*cut], all.Targets[3*cut:], all.Outputs[3*cut:]
			c.m.Add(sums, first)
			c.m.Add(sums, second)
			for i, got := range c.m.Values(sums) {
				if math.Abs(got-c.want[i]) > 1e-12 {
					t.Errorf("%T%+v cut after %d rows: %s is %v, want %v", c.m, c.m, cut, c.m.Names()[i], got, c.want[i])
				}
			}
		}
	}
	if got := all.LossWeight(); got != 8 {
		t.Errorf("the loss weighs %v, want 8, the targets that are known", got)
	}
}

func TestMetricsThatDoNotFitAreErrors(t *testing.T) {
	for want, list := range map[string][]metrics.Metric{
		`"top5", which another one has`: {metrics.TopK{K: 5}, metrics.TopK{K: 5}},
		"TopK.K is 0":                   {metrics.TopK{}},
		"F1.Classes is 1":               {metrics.F1{Classes: 1}},
		`F1.Average is "mean"`:          {metrics.F1{Classes: 2, Average: "mean"}},
		"LabelF1.Labels is 0":           {metrics.LabelF1{}},
		`LabelF1.Average is "binary"`:   {metrics.LabelF1{Labels: 2, Average: "binary"}},
		"IoU.Classes is below 1":        {metrics.IoU{}},
		"metric 0 is nil":               {nil},
	} {
		if err := metrics.CheckMetrics(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got error %v, want one with %s", list, err, want)
		}
	}
	if err := metrics.CheckMetrics([]metrics.Metric{metrics.TopK{K: 5}, metrics.F1{Classes: 2}, metrics.IoU{Classes: 2}, metrics.Perplexity{}}); err != nil {
		t.Error(err)
	}
}

// A label beyond the classes fails a training step. In a batch it weighs nothing, as it counts in
// no metric of classes.
func TestALabelThatIsNoClassWeighsNothing(t *testing.T) {
	b := metrics.Batch{Width: 2, Labels: []int32{0, 2, -1, 1}, ClassWeights: []float32{0.5, 3}, Outputs: make([]float32, 8)}
	if got := b.LossWeight(); got != 3.5 {
		t.Errorf("the loss weighs %v, want 3.5", got)
	}
}
