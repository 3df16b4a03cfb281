package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A squaredErrors has the kernels of the mean squared error and of its gradient.
type squaredErrors struct {
	mem      *memory
	threads  threads
	examples *examples
}

func (s *squaredErrors) builders() builders {
	return builders{plan.MSE: s.mse, plan.MSEGrad: s.mseGrad}
}

// exampleNumbers returns a function that tells how many numbers of an MSE's argument belong to
// examples of this run.
func (s *squaredErrors) exampleNumbers(v *plan.Value, mode *op.Mode) func() int {
	n := v.Len()
	if mode == nil || len(v.Shape) == 0 {
		return func() int { return n }
	}
	rows := v.Shape[0]
	return func() int { return n / rows * s.examples.rows(rows) }
}

// mse is the mean of the squares of differences. Pieces are summed apart in float64, and added in
// order.
func (s *squaredErrors) mse(o *plan.Op) (kernel, error) {
	k := pieces(o.In[0].Len(), grain)
	there := s.exampleNumbers(o.In[0], o.Attr.(*op.MSE).Mode)
	return kernel{doubles: k, bind: func() func() error {
		x, t, loss := s.mem.floats(o.In[0]), s.mem.floats(o.In[1]), s.mem.floats(o.Out[0])
		sums := s.mem.doubles(k)
		var n int
		piece := func(i int) {
			sum := 0.0
			for j := i * n / k; j < (i+1)*n/k; j++ {
				d := float64(x[j]) - float64(t[j])
				sum += d * d
			}
			sums[i] = sum
		}
		return then(func() {
			n = there()
			s.threads.pool.Run(k, piece)
			sum := 0.0
			for _, v := range sums {
				sum += v
			}
			loss[0] = float32(sum / float64(max(n, 1)))
		})
	}}, nil
}

// mseGrad is 2·dloss·(x − t)/n, and 0 for what is beyond a short batch.
func (s *squaredErrors) mseGrad(o *plan.Op) (kernel, error) {
	there := s.exampleNumbers(o.In[0], o.Attr.(*op.MSEGrad).Mode)
	return kernel{bind: func() func() error {
		dx, x, t, dloss := s.mem.floats(o.Out[0]), s.mem.floats(o.In[0]), s.mem.floats(o.In[1]), s.mem.floats(o.In[2])
		var n int
		each := s.threads.split(len(dx), grain, func(lo, hi int) {
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
