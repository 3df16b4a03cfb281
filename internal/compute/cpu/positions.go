package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A learnedPositions has the kernels of learned positions and of their gradient.
type learnedPositions struct {
	mem     *memory
	threads threads
}

func (l *learnedPositions) builders() builders {
	return builders{plan.Positions: l.add, plan.PositionsGrad: l.grad}
}

// add is y = x + p, p for each example; y may be x.
func (l *learnedPositions) add(o *plan.Op) (kernel, error) {
	s := o.In[0].Shape
	size, first := s[1]*s[2], o.Attr.(*op.Positions).First*s[2]
	return kernel{bind: func() func() error {
		y, x, p := l.mem.floats(o.Out[0]), l.mem.floats(o.In[0]), l.mem.floats(o.In[1])[first:][:size]
		return then(l.threads.split(s[0]*s[1], rowGrain(s[2]), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				t := i % s[1] * s[2]
				f32.Add(y[i*s[2]:(i+1)*s[2]], x[i*s[2]:(i+1)*s[2]], p[t:t+s[2]])
			}
		}))
	}}, nil
}

// grad adds up the examples in their order, position by position.
func (l *learnedPositions) grad(o *plan.Op) (kernel, error) {
	s := o.In[0].Shape
	size, first := s[1]*s[2], o.Attr.(*op.PositionsGrad).First*s[2]
	return kernel{bind: func() func() error {
		dp, dy := l.mem.floats(o.Out[0]), l.mem.floats(o.In[0])
		own := dp[first : first+size]
		sum := l.threads.split(size, max(1, grain/s[0]), func(lo, hi int) {
			copy(own[lo:hi], dy[lo:hi])
			for b := 1; b < s[0]; b++ {
				f32.AddTo(own[lo:hi], dy[b*size+lo:b*size+hi])
			}
		})
		return then(func() {
			clear(dp[:first])
			clear(dp[first+size:])
		}, sum)
	}}, nil
}
