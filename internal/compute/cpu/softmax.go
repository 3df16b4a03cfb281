package cpu

import (
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

// A softmaxes has the kernels of the softmax of each row and of its gradient.
type softmaxes struct {
	mem     *memory
	threads threads
}

func (s *softmaxes) builders() builders {
	return builders{plan.Softmax: s.softmax, plan.SoftmaxGrad: s.softmaxGrad}
}

// softmax is exp(x) / Σ exp(x) along an axis, or its logarithm, computed in float64.
func (s *softmaxes) softmax(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.Softmax)
	outer, n, inner := op.Along(o.In[0].Shape, a.Axis)
	row := softmaxRow
	if a.Log {
		row = logSoftmaxRow
	}
	return kernel{bind: func() func() error {
		y, x := s.mem.floats(o.Out[0]), s.mem.floats(o.In[0])
		if inner == 1 {
			return then(s.threads.split(outer, expGrain(n), func(lo, hi int) {
				for i := lo * n; i < hi*n; i += n {
					row(y[i:i+n], x[i:i+n])
				}
			}))
		}
		return then(s.threads.split(outer*inner, expGrain(n), func(lo, hi int) {
			for v := lo; v < hi; v++ {
				softmaxApart(y, x, v/inner*n*inner+v%inner, n, inner, a.Log)
			}
		}))
	}}, nil
}

// logSoftmaxRow sets y to x − log Σ exp(x); y may be x.
func logSoftmaxRow(y, x []float32) {
	lse := logSumExp(x)
	for k, v := range x {
		y[k] = float32(float64(v) - lse)
	}
}

// softmaxApart is the softmax, or its logarithm, of n numbers from first on that are step apart.
func softmaxApart(y, x []float32, first, n, step int, log bool) {
	top, sum := math.Inf(-1), 0.0
	for k := range n {
		top = math.Max(top, float64(x[first+k*step]))
	}
	for k := range n {
		sum += math.Exp(float64(x[first+k*step]) - top)
	}
	lse := math.Log(sum) + top
	for k := range n {
		v := float64(x[first+k*step]) - lse
		if !log {
			v = math.Exp(v)
		}
		y[first+k*step] = float32(v)
	}
}

// softmaxGrad is dx = y·(dy − Σ dy·y) along an axis, or that of the logarithm, dy − exp(y)·Σ dy.
func (s *softmaxes) softmaxGrad(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.SoftmaxGrad)
	outer, n, inner := op.Along(o.In[0].Shape, a.Axis)
	return kernel{bind: func() func() error {
		dx, y, dy := s.mem.floats(o.Out[0]), s.mem.floats(o.In[0]), s.mem.floats(o.In[1])
		return then(s.threads.split(outer*inner, rowGrain(n), func(lo, hi int) {
			for v := lo; v < hi; v++ {
				softmaxGradApart(dx, y, dy, v/inner*n*inner+v%inner, n, inner, a.Log)
			}
		}))
	}}, nil
}

// softmaxGradApart is the gradient of n numbers from first on that are step apart.
func softmaxGradApart(dx, y, dy []float32, first, n, step int, log bool) {
	end := first + n*step
	if log {
		sum := 0.0
		for i := first; i < end; i += step {
			sum += float64(dy[i])
		}
		for i := first; i < end; i += step {
			dx[i] = float32(float64(dy[i]) - math.Exp(float64(y[i]))*sum)
		}
		return
	}
	var dot float32
	if step == 1 {
		dot = f32.Dot(dy[first:end], y[first:end])
	} else {
		for i := first; i < end; i += step {
			dot += dy[i] * y[i]
		}
	}
	for i := first; i < end; i += step {
		dx[i] = y[i] * (dy[i] - dot)
	}
}
