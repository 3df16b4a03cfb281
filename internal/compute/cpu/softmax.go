package cpu

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
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

// softmax is exp(x) / Σ exp(x) of each row, computed in float64.
func (s *softmaxes) softmax(o *plan.Op) (kernel, error) {
	c := o.In[0].Shape[1]
	return kernel{bind: func() func() error {
		y, x := s.mem.floats(o.Out[0]), s.mem.floats(o.In[0])
		return then(s.threads.split(len(x)/c, expGrain(c), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				softmaxRow(y[b*c:(b+1)*c], x[b*c:(b+1)*c])
			}
		}))
	}}, nil
}

// softmaxGrad is dx = y·(dy − Σ dy·y) for each row.
func (s *softmaxes) softmaxGrad(o *plan.Op) (kernel, error) {
	c := o.In[0].Shape[1]
	return kernel{bind: func() func() error {
		dx, y, dy := s.mem.floats(o.Out[0]), s.mem.floats(o.In[0]), s.mem.floats(o.In[1])
		return then(s.threads.split(len(y)/c, rowGrain(c), func(lo, hi int) {
			for i := lo * c; i < hi*c; i += c {
				dot := f32.Dot(dy[i:i+c], y[i:i+c])
				for k := i; k < i+c; k++ {
					dx[k] = y[k] * (dy[k] - dot)
				}
			}
		}))
	}}, nil
}
