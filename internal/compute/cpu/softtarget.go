package cpu

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A softTargets has the kernels of the cross entropy with a distribution for each row, and of its
// gradient.
type softTargets struct {
	mem      *memory
	threads  threads
	examples *examples
}

func (s *softTargets) builders() builders {
	return builders{plan.SoftCrossEntropy: s.softCrossEntropy, plan.SoftCrossEntropyGrad: s.softCrossEntropyGrad}
}

// softCrossEntropy is the mean of the losses of the rows that count.
func (s *softTargets) softCrossEntropy(o *plan.Op) (kernel, error) {
	rows, c := o.In[0].Shape[0], o.In[0].Shape[1]
	divergence := o.Attr.(*op.SoftCrossEntropy).Divergence
	return kernel{doubles: rowLossDoubles(rows), bind: func() func() error {
		x, t, loss := s.mem.floats(o.In[0]), s.mem.floats(o.In[1]), s.mem.floats(o.Out[0])
		losses := newRowLosses(s.mem.doubles(rowLossDoubles(rows)))
		var there int
		each := s.threads.split(rows, expGrain(c), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				row, targets := x[b*c:(b+1)*c], t[b*c:(b+1)*c]
				losses.sums[b], losses.counts[b] = 0, 0
				if b >= there || !op.CountsSoft(targets) {
					continue
				}
				losses.sums[b], losses.counts[b] = softLoss(row, targets, divergence), 1
			}
		})
		return then(func() {
			there = s.examples.rows(rows)
			each()
			loss[0] = losses.mean()
		})
	}}, nil
}

// softLoss is the loss of a row: with divergence less the entropy of the targets.
func softLoss(row, targets []float32, divergence bool) float64 {
	lse, sum := logSumExp(row), 0.0
	for k, v := range targets {
		if v != 0 {
			sum += float64(v) * (lse - float64(row[k]))
		}
		if divergence && v > 0 {
			sum += float64(v) * math.Log(float64(v))
		}
	}
	return sum
}

// softLossGrad sets out to share times the gradient of a row.
func softLossGrad(out, row, targets []float32, share float64) {
	all := op.Sum(targets)
	if len(row) <= fewClasses {
		var room [fewClasses]float64
		for k, p := range softmaxOf(room[:0], row) {
			out[k] = float32(share * (all*p - float64(targets[k])))
		}
		return
	}
	top, sum := f32.MaxSumExp(row)
	f32.ScaledExp(out, row, top, float32(share*all/sum), 0)
	f32.Axpy(out, float32(-share), targets)
}

// softCrossEntropyGrad is 0 for rows that do not count. How many count is known before any row is
// computed, since each is divided by it.
func (s *softTargets) softCrossEntropyGrad(o *plan.Op) (kernel, error) {
	rows, c := o.In[0].Shape[0], o.In[0].Shape[1]
	return kernel{bind: func() func() error {
		dx, x, t, dloss := s.mem.floats(o.Out[0]), s.mem.floats(o.In[0]), s.mem.floats(o.In[1]), s.mem.floats(o.In[2])
		var there int
		var share float64
		each := s.threads.split(rows, expGrain(c), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				out, row, targets := dx[b*c:(b+1)*c], x[b*c:(b+1)*c], t[b*c:(b+1)*c]
				if b >= there || !op.CountsSoft(targets) {
					clear(out)
					continue
				}
				softLossGrad(out, row, targets, share)
			}
		})
		return then(func() {
			there = s.examples.rows(rows)
			share = float64(dloss[0]) / math.Max(op.CountSoft(t[:there*c], c), 1)
			each()
		})
	}}, nil
}
