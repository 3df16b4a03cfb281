package cpu

import (
	"math"
)

// A labelLoss is the cross entropy of a row of c logits and a label.
type labelLoss struct {
	c         int
	smoothing float64

	// weights are those of the classes; nil: they weigh the same. all is their sum.
	weights []float32
	all     float64
}

// of is the loss of a row.
func (s *labelLoss) of(row []float32, label int) float64 {
	if s.weights != nil {
		return s.weighted(row, label)
	}
	loss := logSumExp(row) - (1-s.smoothing)*float64(row[label])
	if s.smoothing != 0 {
		sum := 0.0
		for _, v := range row {
			sum += float64(v)
		}
		loss -= s.smoothing / float64(s.c) * sum
	}
	return loss
}

func (s *labelLoss) weighted(row []float32, label int) float64 {
	w := (1 - s.smoothing) * float64(s.weights[label])
	spread := s.smoothing / float64(s.c)
	loss := (w+spread*s.all)*logSumExp(row) - w*float64(row[label])
	if s.smoothing != 0 {
		sum := 0.0
		for k, v := range row {
			sum += float64(s.weights[k]) * float64(v)
		}
		loss -= spread * sum
	}
	return loss
}

// wanted is the probability that the loss asks for, of the label or of another class.
func (s *labelLoss) wanted(isLabel bool) float64 {
	if isLabel {
		return 1 - s.smoothing + s.smoothing/float64(s.c)
	}
	return s.smoothing / float64(s.c)
}

// grad sets out to share times the gradient of a row.
func (s *labelLoss) grad(out, row []float32, label int, share float64) {
	switch {
	case s.weights != nil:
		w, spread := (1-s.smoothing)*float64(s.weights[label]), s.smoothing/float64(s.c)
		lse := logSumExp(row)
		for k, v := range row {
			g := (w+spread*s.all)*math.Exp(float64(v)-lse) - spread*float64(s.weights[k])
			if k == label {
				g -= w
			}
			out[k] = float32(share * g)
		}
	case s.c <= fewClasses:
		var room [fewClasses]float64
		for k, p := range softmaxOf(room[:0], row) {
			out[k] = float32(share * (p - s.wanted(k == label)))
		}
	default:
		lse := logSumExp(row)
		for k, v := range row {
			out[k] = float32(share * (math.Exp(float64(v)-lse) - s.wanted(k == label)))
		}
	}
}
