package cpu

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// softCrossEntropy keeps a row's loss in the first half of doubles, and in the second whether the
// row counts.
func (e *Executor) softCrossEntropy(o *plan.Op) (kernel, error) {
	rows, c := o.In[0].Shape[0], o.In[0].Shape[1]
	return kernel{doubles: 2 * rows, bind: func() func() error {
		x, t, loss := e.floats(o.In[0]), e.floats(o.In[1]), e.floats(o.Out[0])
		var there int
		each := e.split(rows, expGrain(c), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				row, targets := x[b*c:(b+1)*c], t[b*c:(b+1)*c]
				e.doubles[b], e.doubles[rows+b] = 0, 0
				if b >= there || !op.CountsSoft(targets) {
					continue
				}
				e.doubles[b], e.doubles[rows+b] = softLoss(row, targets), 1
			}
		})
		return then(func() {
			there = e.rows(rows)
			each()
			loss[0] = e.meanOfRows(rows)
		})
	}}, nil
}

// softLoss is the loss of a row.
func softLoss(row, targets []float32) float64 {
	lse, sum := logSumExp(row), 0.0
	for k, v := range targets {
		if v != 0 {
			sum += float64(v) * (lse - float64(row[k]))
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
	lse := logSumExp(row)
	for k, v := range row {
		out[k] = float32(share * (all*math.Exp(float64(v)-lse) - float64(targets[k])))
	}
}

// meanOfRows is the sum of the first half of doubles by that of the second, a number of rows each;
// 0 of nothing.
func (e *Executor) meanOfRows(rows int) float32 {
	sum, count := 0.0, 0.0
	for b := range rows {
		sum += e.doubles[b]
		count += e.doubles[rows+b]
	}
	return float32(sum / math.Max(count, 1))
}

func (e *Executor) softCrossEntropyGrad(o *plan.Op) (kernel, error) {
	rows, c := o.In[0].Shape[0], o.In[0].Shape[1]
	return kernel{bind: func() func() error {
		dx, x, t, dloss := e.floats(o.Out[0]), e.floats(o.In[0]), e.floats(o.In[1]), e.floats(o.In[2])
		var there int
		var share float64
		each := e.split(rows, expGrain(c), func(lo, hi int) {
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
			there = e.rows(rows)
			share = float64(dloss[0]) / math.Max(op.CountSoft(t[:there*c], c), 1)
			each()
		})
	}}, nil
}

// binaryCrossEntropy keeps a row's loss in the first half of doubles, and in the second how many of
// its targets count.
func (e *Executor) binaryCrossEntropy(o *plan.Op) (kernel, error) {
	rows, c := o.In[0].Shape[0], o.In[0].Shape[1]
	weights := o.Attr.(*op.BinaryCrossEntropy).PosWeights
	return kernel{doubles: 2 * rows, bind: func() func() error {
		x, t, loss := e.floats(o.In[0]), e.floats(o.In[1]), e.floats(o.Out[0])
		var there int
		each := e.split(rows, expGrain(c), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				e.doubles[b], e.doubles[rows+b] = 0, 0
				if b < there {
					e.doubles[b], e.doubles[rows+b] = binaryLoss(x[b*c:(b+1)*c], t[b*c:(b+1)*c], weights)
				}
			}
		})
		return then(func() {
			there = e.rows(rows)
			each()
			loss[0] = e.meanOfRows(rows)
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

func (e *Executor) binaryCrossEntropyGrad(o *plan.Op) (kernel, error) {
	rows, c := o.In[0].Shape[0], o.In[0].Shape[1]
	weights := o.Attr.(*op.BinaryCrossEntropyGrad).PosWeights
	return kernel{doubles: rows, bind: func() func() error {
		dx, x, t, dloss := e.floats(o.Out[0]), e.floats(o.In[0]), e.floats(o.In[1]), e.floats(o.In[2])
		var there int
		var share float64
		known := e.split(rows, rowGrain(c), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				e.doubles[b] = 0
				if b < there {
					e.doubles[b] = op.CountBinary(t[b*c : (b+1)*c])
				}
			}
		})
		each := e.split(rows, expGrain(c), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				out, row := dx[b*c:(b+1)*c], x[b*c:(b+1)*c]
				if b >= there {
					clear(out)
					continue
				}
				binaryLossGrad(out, row, t[b*c:(b+1)*c], weights, share)
			}
		})
		return then(func() {
			there = e.rows(rows)
			known()
			count := 0.0
			for _, n := range e.doubles[:rows] {
				count += n
			}
			share = float64(dloss[0]) / math.Max(count, 1)
			each()
		})
	}}, nil
}
