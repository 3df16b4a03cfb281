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

func (e *Executor) crossEntropy(o *plan.Op) (kernel, error) {
	rows, c := o.In[0].Shape[0], o.In[0].Shape[1]
	smoothing, weights := o.Attr.(*op.SoftmaxCrossEntropy).Smoothing, o.Attr.(*op.SoftmaxCrossEntropy).Weights
	all := op.Sum(weights)
	return kernel{doubles: rows, bind: func() func() error {
		x, loss := e.floats(o.In[0]), e.floats(o.Out[0])
		labels, err := e.labels(o.In[1], c, weights)
		if err != nil {
			return func() error { return err }
		}
		var at func(i int) int
		each := e.split(rows, expGrain(c), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				e.doubles[b] = 0
				l := at(b)
				switch {
				case l < 0:
				case weights != nil:
					row, w := x[b*c:(b+1)*c], (1-smoothing)*float64(weights[l])
					spread := smoothing / float64(c)
					e.doubles[b] = (w+spread*all)*logSumExp(row) - w*float64(row[l])
					if smoothing != 0 {
						sum := 0.0
						for k, v := range row {
							sum += float64(weights[k]) * float64(v)
						}
						e.doubles[b] -= spread * sum
					}
				default:
					row := x[b*c : (b+1)*c]
					e.doubles[b] = logSumExp(row) - (1-smoothing)*float64(row[l])
					if smoothing != 0 {
						sum := 0.0
						for _, v := range row {
							sum += float64(v)
						}
						e.doubles[b] -= smoothing / float64(c) * sum
					}
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
	all := op.Sum(weights)

	// wanted is the probability that the loss asks for.
	wanted := func(label bool) float64 {
		if label {
			return 1 - smoothing + smoothing/float64(c)
		}
		return smoothing / float64(c)
	}
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
				row := x[b*c : (b+1)*c]
				if weights != nil {
					w, spread := (1-smoothing)*float64(weights[l]), smoothing/float64(c)
					lse := logSumExp(row)
					for k, v := range row {
						g := (w+spread*all)*math.Exp(float64(v)-lse) - spread*float64(weights[k])
						if k == l {
							g -= w
						}
						out[k] = float32(share * g)
					}
					continue
				}
				if c <= fewClasses {
					var room [fewClasses]float64
					for k, p := range softmaxOf(room[:0], row) {
						out[k] = float32(share * (p - wanted(k == l)))
					}
					continue
				}
				lse := logSumExp(row)
				for k, v := range row {
					out[k] = float32(share * (math.Exp(float64(v)-lse) - wanted(k == l)))
				}
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
