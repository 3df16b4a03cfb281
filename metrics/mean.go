package metrics

import (
	"fmt"
	"math"
)

// A Mean is a weighted mean, such as the loss over an epoch with the batch
// sizes as weights. The zero value is empty.
type Mean struct {
	// Sum is that of value·weight.
	Sum    float64
	Weight float64
}

// Add counts a value with its weight.
func (m *Mean) Add(value, weight float64) {
	m.Sum += value * weight
	m.Weight += weight
}

// Value returns the mean, or NaN of nothing.
func (m Mean) Value() float64 {
	if m.Weight == 0 {
		return math.NaN()
	}
	return m.Sum / m.Weight
}

// An Accuracy is a share of right answers. The zero value is empty.
type Accuracy struct {
	Right, Total int64
}

// AddLogits counts one answer for each label: the class with the largest of
// its classes logits, the first one of equals. A row with a NaN is wrong.
// logits holds at least len(labels) rows; rows beyond (those of a padded
// batch) do not count.
func (a *Accuracy) AddLogits(logits []float32, labels []int32, classes int) {
	if classes < 1 || len(logits) < len(labels)*classes {
		panic(fmt.Sprintf("metrics: Accuracy.AddLogits: got %d logits for %d labels of %d classes", len(logits), len(labels), classes))
	}
	for i, label := range labels {
		row := logits[i*classes : (i+1)*classes]
		best, sound := 0, true
		for c, v := range row {
			if v != v {
				sound = false
			}
			if v > row[best] {
				best = c
			}
		}
		if sound && best == int(label) {
			a.Right++
		}
		a.Total++
	}
}

// Value returns the share in [0, 1], or NaN of nothing.
func (a Accuracy) Value() float64 {
	if a.Total == 0 {
		return math.NaN()
	}
	return float64(a.Right) / float64(a.Total)
}
