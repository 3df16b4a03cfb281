package cpu

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// logSumExp is log Σ exp(row), without overflow, in float64.
func logSumExp(row []float32) float64 {
	top := math.Inf(-1)
	for _, v := range row {
		top = math.Max(top, float64(v))
	}
	sum := 0.0
	for _, v := range row {
		sum += math.Exp(float64(v) - top)
	}
	return math.Log(sum) + top
}

// softmaxOf appends exp(x) / Σ exp(x) to p, each exponential taken once.
func softmaxOf(p []float64, x []float32) []float64 {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = math.Max(top, float64(v))
	}
	for _, v := range x {
		e := math.Exp(float64(v) - top)
		p = append(p, e)
		sum += e
	}
	for k := range p {
		p[k] /= sum
	}
	return p
}

// fewClasses is the number of classes whose exponentials have room on the stack.
const fewClasses = 64

// softmaxRow sets y to exp(x) / Σ exp(x); y may be x.
func softmaxRow(y, x []float32) {
	if len(x) <= fewClasses {
		var room [fewClasses]float64
		for k, p := range softmaxOf(room[:0], x) {
			y[k] = float32(p)
		}
		return
	}
	lse := logSumExp(x)
	for k, v := range x {
		y[k] = float32(math.Exp(float64(v) - lse))
	}
}

// expGrain is grain in rows of c exponentials, each of which costs as much as a hundred values of a
// plain pass.
func expGrain(c int) int { return max(1, grain/100/c) }

func (e *Executor) softmax(o *plan.Op) (kernel, error) {
	c := o.In[0].Shape[1]
	return kernel{bind: func() func() error {
		y, x := e.floats(o.Out[0]), e.floats(o.In[0])
		return then(e.split(len(x)/c, expGrain(c), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				softmaxRow(y[b*c:(b+1)*c], x[b*c:(b+1)*c])
			}
		}))
	}}, nil
}

func (e *Executor) softmaxGrad(o *plan.Op) (kernel, error) {
	c := o.In[0].Shape[1]
	return kernel{bind: func() func() error {
		dx, y, dy := e.floats(o.Out[0]), e.floats(o.In[0]), e.floats(o.In[1])
		return then(e.split(len(y)/c, rowGrain(c), func(lo, hi int) {
			for i := lo * c; i < hi*c; i += c {
				dot := f32.Dot(dy[i:i+c], y[i:i+c])
				for k := i; k < i+c; k++ {
					dx[k] = y[k] * (dy[k] - dot)
				}
			}
		}))
	}}, nil
}

// labels checks the class labels of examples and adds up what those weigh that are not −1: 1, or
// the weight of their class. Rows that are not there read as −1; their labels are not looked at.
func (e *Executor) labels(v *plan.Value, classes int, weights []float32) (func() (at func(i int) int, count float64, err error), error) {
	read, err := e.indices(v)
	if err != nil {
		return nil, err
	}
	n := v.Len()
	return func() (func(i int) int, float64, error) {
		at, there, count := read(), e.rows(n), 0.0
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

func (e *Executor) crossEntropy(o *plan.Op) (kernel, error) {
	rows, c := o.In[0].Shape[0], o.In[0].Shape[1]
	smoothing, weights := o.Attr.(*op.SoftmaxCrossEntropy).Smoothing, o.Attr.(*op.SoftmaxCrossEntropy).Weights
	labelled := labelLoss{c: c, smoothing: smoothing, weights: weights, all: op.Sum(weights)}
	return kernel{doubles: rows, bind: func() func() error {
		x, loss := e.floats(o.In[0]), e.floats(o.Out[0])
		labels, err := e.labels(o.In[1], c, weights)
		if err != nil {
			return func() error { return err }
		}
		var at func(i int) int
		each := e.split(rows, expGrain(c), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				if l := at(b); l < 0 {
					e.doubles[b] = 0
				} else {
					e.doubles[b] = labelled.of(x[b*c:(b+1)*c], l)
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
			for _, v := range e.doubles[:rows] {
				sum += v
			}
			loss[0] = float32(sum / count)
			return nil
		}
	}}, nil
}

func (e *Executor) crossEntropyGrad(o *plan.Op) (kernel, error) {
	rows, c := o.In[0].Shape[0], o.In[0].Shape[1]
	smoothing, weights := o.Attr.(*op.SoftmaxCrossEntropyGrad).Smoothing, o.Attr.(*op.SoftmaxCrossEntropyGrad).Weights
	labelled := labelLoss{c: c, smoothing: smoothing, weights: weights, all: op.Sum(weights)}
	return kernel{bind: func() func() error {
		dx, x, dloss := e.floats(o.Out[0]), e.floats(o.In[0]), e.floats(o.In[2])
		labels, err := e.labels(o.In[1], c, weights)
		if err != nil {
			return func() error { return err }
		}
		var at func(i int) int
		var share float64
		each := e.split(rows, expGrain(c), func(lo, hi int) {
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

// exampleNumbers returns a function that tells how many numbers of an MSE's argument belong to
// examples of this run.
func (e *Executor) exampleNumbers(v *plan.Value, mode *op.Mode) func() int {
	n := v.Len()
	if mode == nil || len(v.Shape) == 0 {
		return func() int { return n }
	}
	rows := v.Shape[0]
	return func() int { return n / rows * e.rows(rows) }
}

func (e *Executor) mse(o *plan.Op) (kernel, error) {
	k := pieces(o.In[0].Len(), grain)
	there := e.exampleNumbers(o.In[0], o.Attr.(*op.MSE).Mode)
	return kernel{doubles: k, bind: func() func() error {
		x, t, loss := e.floats(o.In[0]), e.floats(o.In[1]), e.floats(o.Out[0])
		var n int
		piece := func(i int) {
			sum := 0.0
			for j := i * n / k; j < (i+1)*n/k; j++ {
				d := float64(x[j]) - float64(t[j])
				sum += d * d
			}
			e.doubles[i] = sum
		}
		return then(func() {
			n = there()
			e.pool.Run(k, piece)
			sum := 0.0
			for _, v := range e.doubles[:k] {
				sum += v
			}
			loss[0] = float32(sum / float64(max(n, 1)))
		})
	}}, nil
}

func (e *Executor) mseGrad(o *plan.Op) (kernel, error) {
	there := e.exampleNumbers(o.In[0], o.Attr.(*op.MSEGrad).Mode)
	return kernel{bind: func() func() error {
		dx, x, t, dloss := e.floats(o.Out[0]), e.floats(o.In[0]), e.floats(o.In[1]), e.floats(o.In[2])
		var n int
		each := e.split(len(dx), grain, func(lo, hi int) {
			scale := 2 * dloss[0] / float32(max(n, 1))
			for i := lo; i < min(hi, n); i++ {
				dx[i] = scale * (x[i] - t[i])
			}
			if hi > n {
				clear(dx[max(lo, n):hi])
			}
		})
		return then(func() { n = there() }, each)
	}}, nil
}
