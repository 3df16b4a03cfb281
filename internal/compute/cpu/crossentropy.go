package cpu

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A crossEntropies has the kernels of the cross entropy with class labels and of its gradient.
type crossEntropies struct {
	mem      *memory
	threads  threads
	examples *examples
}

func (e *crossEntropies) builders() builders {
	return builders{plan.CrossEntropy: e.crossEntropy, plan.CrossEntropyGrad: e.crossEntropyGrad}
}

// labels checks the class labels of examples and adds up what those weigh that are not −1: 1, or
// the weight of their class. Rows that are not there read as −1; their labels are not looked at.
func (e *crossEntropies) labels(v *plan.Value, classes int, weights []float32) (func() (at func(i int) int, count float64, err error), error) {
	read, err := e.mem.indices(v)
	if err != nil {
		return nil, err
	}
	n := v.Len()
	return func() (func(i int) int, float64, error) {
		at, there, count := read(), e.examples.rows(n), 0.0
		for i := range there {
			l := at(i)
			if l < -1 || l >= classes {
				return nil, 0, fmt.Errorf("label of example %d is %d, want -1 to %d", i, l, classes-1)
			}
			count += op.LabelWeight(weights, l)
		}
		if there == n {
			return at, count, nil
		}
		return func(i int) int {
			if i < there {
				return at(i)
			}
			return -1
		}, count, nil
	}, nil
}

// crossEntropy is the mean loss of the examples whose labels count; 0 if none does. Losses of rows
// are added in their order. A label out of range is an error of the run, not of the plan: labels
// change.
func (e *crossEntropies) crossEntropy(o *plan.Op) (kernel, error) {
	rows, c := o.In[0].Shape[0], o.In[0].Shape[1]
	smoothing, weights := o.Attr.(*op.SoftmaxCrossEntropy).Smoothing, o.Attr.(*op.SoftmaxCrossEntropy).Weights
	labelled := labelLoss{c: c, smoothing: smoothing, weights: weights, all: op.Sum(weights)}
	return kernel{doubles: rows, bind: func() func() error {
		x, loss := e.mem.floats(o.In[0]), e.mem.floats(o.Out[0])
		labels, err := e.labels(o.In[1], c, weights)
		if err != nil {
			return func() error { return err }
		}
		losses := e.mem.doubles(rows)
		var at func(i int) int
		each := e.threads.split(rows, expGrain(c), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				if l := at(b); l < 0 {
					losses[b] = 0
				} else {
					losses[b] = labelled.of(x[b*c:(b+1)*c], l)
				}
			}
		})
		return func() error {
			var count float64
			if at, count, err = labels(); err != nil {
				return err
			}
			if count == 0 {
				loss[0] = 0
				return nil
			}
			each()
			sum := 0.0
			for _, v := range losses {
				sum += v
			}
			loss[0] = float32(sum / count)
			return nil
		}
	}}, nil
}

// crossEntropyGrad is 0 for examples whose labels do not count, and for rows beyond a short batch.
func (e *crossEntropies) crossEntropyGrad(o *plan.Op) (kernel, error) {
	rows, c := o.In[0].Shape[0], o.In[0].Shape[1]
	smoothing, weights := o.Attr.(*op.SoftmaxCrossEntropyGrad).Smoothing, o.Attr.(*op.SoftmaxCrossEntropyGrad).Weights
	labelled := labelLoss{c: c, smoothing: smoothing, weights: weights, all: op.Sum(weights)}
	return kernel{bind: func() func() error {
		dx, x, dloss := e.mem.floats(o.Out[0]), e.mem.floats(o.In[0]), e.mem.floats(o.In[2])
		labels, err := e.labels(o.In[1], c, weights)
		if err != nil {
			return func() error { return err }
		}
		var at func(i int) int
		var share float64
		each := e.threads.split(rows, expGrain(c), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				out := dx[b*c : (b+1)*c]
				l := at(b)
				if l < 0 {
					clear(out)
					continue
				}
				labelled.grad(out, x[b*c:(b+1)*c], l, share)
			}
		})
		return func() error {
			var count float64
			if at, count, err = labels(); err != nil {
				return err
			}
			if count == 0 {
				clear(dx)
				return nil
			}
			share = float64(dloss[0]) / count
			each()
			return nil
		}
	}}, nil
}
