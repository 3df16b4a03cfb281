package metrics

import (
	"fmt"
	"slices"
)

// LabelF1 is F1 for examples that may have several labels (Batch.Targets): "f1", "precision" and
// "recall", as scikit-learn's f1_score has them for a matrix of labels. A label counts as found
// where its output is above Threshold. Targets of −1 count nowhere.
type LabelF1 struct {
	// Labels is how many there are: the numbers in a row.
	Labels int
	// Average is "macro", the mean over labels (also if empty), in which one that no example
	// has and that was not found counts as 0, or "micro", over all targets together.
	Average string
	// Threshold of an output. 0 (the default) is a probability of one half where outputs are
	// logits, as those of nn.BinaryCrossEntropy are.
	Threshold float32
}

// Validate names a field that cannot be.
func (m LabelF1) Validate() error {
	switch {
	case m.Labels < 1:
		return fmt.Errorf("LabelF1.Labels is %d, want at least 1", m.Labels)
	case !slices.Contains([]string{"", "macro", "micro"}, m.Average):
		return fmt.Errorf("LabelF1.Average is %q, want macro or micro", m.Average)
	}
	return nil
}

func (m LabelF1) Names() []string { return []string{"f1", "precision", "recall"} }
func (m LabelF1) Sums() int       { return 3 * m.Labels }

func (m LabelF1) Add(sums []float64, b Batch) {
	b.Numbers(func(output float32, label int, has bool) {
		if label >= m.Labels {
			return
		}
		switch found := output > m.Threshold; {
		case found && has:
			sums[3*label]++
		case found:
			sums[3*label+1]++
		case has:
			sums[3*label+2]++
		}
	})
}

func (m LabelF1) Values(sums []float64) []float64 { return averageF1(sums, m.Average == "micro", true) }
