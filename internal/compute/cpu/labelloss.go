package cpu

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
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
		loss -= s.smoothing / float64(s.c) * totalOf(row)
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
		p := softmaxTimes(out, row, label, share*(w+spread*s.all), 0)
		f32.Axpy(out, float32(-share*spread), s.weights)
		out[label] = float32(share * ((w+spread*s.all)*p - spread*float64(s.weights[label]) - w))
	case s.c <= fewClasses:
		var room [fewClasses]float64
		for k, p := range softmaxOf(room[:0], row) {
			out[k] = float32(share * (p - s.wanted(k == label)))
		}
	default:
		p := softmaxTimes(out, row, label, share, -share*s.wanted(false))
		out[label] = float32(share * (p - s.wanted(true)))
	}
}

// softmaxTimes sets out to scale·softmax(row) + offset and returns the softmax of one class.
func softmaxTimes(out, row []float32, class int, scale, offset float64) float64 {
	top, sum := f32.MaxSumExp(row)
	p := math.Exp(float64(row[class])-float64(top)) / sum
	f32.ScaledExp(out, row, top, float32(scale/sum), float32(offset))
	return p
}
