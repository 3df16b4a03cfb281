package cpu

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A binaryTargets has the kernels of the cross entropy with a yes or no for each class, and of its
// gradient.
type binaryTargets struct {
	mem      *memory
	threads  threads
	examples *examples
}

func (t *binaryTargets) builders() builders {
	return builders{plan.BinaryCrossEntropy: t.binaryCrossEntropy, plan.BinaryCrossEntropyGrad: t.binaryCrossEntropyGrad}
}

// binaryCrossEntropy is the mean of the losses of the targets that count.
func (t *binaryTargets) binaryCrossEntropy(o *plan.Op) (kernel, error) {
	rows, c := o.In[0].Shape[0], o.In[0].Shape[1]
	weights := o.Attr.(*op.BinaryCrossEntropy).PosWeights
	return kernel{doubles: rowLossDoubles(rows), bind: func() func() error {
		x, targets, loss := t.mem.floats(o.In[0]), t.mem.floats(o.In[1]), t.mem.floats(o.Out[0])
		losses := newRowLosses(t.mem.doubles(rowLossDoubles(rows)))
		var there int
		each := t.threads.split(rows, expGrain(c), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				losses.sums[b], losses.counts[b] = 0, 0
				if b < there {
					losses.sums[b], losses.counts[b] = binaryLoss(x[b*c:(b+1)*c], targets[b*c:(b+1)*c], weights)
				}
			}
		})
		return then(func() {
			there = t.examples.rows(rows)
			each()
			loss[0] = losses.mean()
		})
	}}, nil
}

// binaryLoss is the loss of a row, and how many of its targets count.
func binaryLoss(row, targets, weights []float32) (sum, count float64) {
	for k, target := range targets {
		if op.CountsBinary(target) {
			sum += op.BinaryTerm(float64(row[k]), float64(target), op.PosWeight(weights, k))
			count++
		}
	}
	return sum, count
}

// binaryLossGrad sets out to share times the gradient of a row.
func binaryLossGrad(out, row, targets, weights []float32, share float64) {
	for k, target := range targets {
		out[k] = 0
		if op.CountsBinary(target) {
			out[k] = float32(share * op.BinarySlope(float64(row[k]), float64(target), op.PosWeight(weights, k)))
		}
	}
}

// binaryCrossEntropyGrad counts first which targets there are, row by row on all threads, and then
// computes each row's share.
func (t *binaryTargets) binaryCrossEntropyGrad(o *plan.Op) (kernel, error) {
	rows, c := o.In[0].Shape[0], o.In[0].Shape[1]
	weights := o.Attr.(*op.BinaryCrossEntropyGrad).PosWeights
	return kernel{doubles: rows, bind: func() func() error {
		dx, x, targets, dloss := t.mem.floats(o.Out[0]), t.mem.floats(o.In[0]), t.mem.floats(o.In[1]), t.mem.floats(o.In[2])
		counts := t.mem.doubles(rows)
		var there int
		var share float64
		known := t.threads.split(rows, rowGrain(c), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				counts[b] = 0
				if b < there {
					counts[b] = op.CountBinary(targets[b*c : (b+1)*c])
				}
			}
		})
		each := t.threads.split(rows, expGrain(c), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				out, row := dx[b*c:(b+1)*c], x[b*c:(b+1)*c]
				if b >= there {
					clear(out)
					continue
				}
				binaryLossGrad(out, row, targets[b*c:(b+1)*c], weights, share)
			}
		})
		return then(func() {
			there = t.examples.rows(rows)
			known()
			count := 0.0
			for _, n := range counts {
				count += n
			}
			share = float64(dloss[0]) / math.Max(count, 1)
			each()
		})
	}}, nil
}
