package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A learnedPositions has the kernels of learned positions and class tokens, and of their gradients.
type learnedPositions struct {
	mem     *memory
	threads threads
	lookup  *lookup
}

func (l *learnedPositions) builders() builders {
	return builders{plan.Positions: l.add, plan.PositionsGrad: l.grad, plan.ClassToken: l.token, plan.ClassTokenGrad: l.tokenGrad}
}

// add is y = x + p, p for each example; y may be x.
func (l *learnedPositions) add(o *plan.Op) (kernel, error) {
	s, rows, begin := o.In[0].Shape, o.In[1].Shape[0], o.Attr.(*op.Positions).First
	return kernel{bind: func() func() error {
		y, x, p := l.mem.floats(o.Out[0]), l.mem.floats(o.In[0]), l.mem.floats(o.In[1])
		first := func(int) int { return begin }
		read := func() (func(int) int, error) { return first, nil }
		if len(o.In) > 2 {
			var err error
			if read, err = l.lookup.ids(o.In[2], rows-s[1]+1); err != nil {
				return func() error { return err }
			}
		}
		each := l.threads.split(s[0]*s[1], rowGrain(s[2]), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				t := (first(i/s[1]) + i%s[1]) * s[2]
				f32.Add(y[i*s[2]:(i+1)*s[2]], x[i*s[2]:(i+1)*s[2]], p[t:t+s[2]])
			}
		})
		return func() error {
			var err error
			if first, err = read(); err == nil {
				each()
			}
			return err
		}
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

// token puts the token in front of each example.
func (l *learnedPositions) token(o *plan.Op) (kernel, error) {
	s := o.Out[0].Shape
	size, c := s[1]*s[2], s[2]
	return kernel{bind: func() func() error {
		y, x, token := l.mem.floats(o.Out[0]), l.mem.floats(o.In[0]), l.mem.floats(o.In[1])
		return then(l.threads.split(s[0], rowGrain(size), func(lo, hi int) {
			for b := lo; b < hi; b++ {
				copy(y[b*size:], token)
				copy(y[b*size+c:(b+1)*size], x[b*(size-c):])
			}
		}))
	}}, nil
}

// tokenGrad adds up the token's gradient in the order of the examples.
func (l *learnedPositions) tokenGrad(o *plan.Op) (kernel, error) {
	s := o.In[0].Shape
	size, c := s[1]*s[2], s[2]
	return kernel{bind: func() func() error {
		dx, token, dy := l.mem.floats(o.Out[0]), l.mem.floats(o.Out[1]), l.mem.floats(o.In[0])
		var steps []func()
		if dx != nil {
			steps = append(steps, l.threads.split(s[0], rowGrain(size), func(lo, hi int) {
				for b := lo; b < hi; b++ {
					copy(dx[b*(size-c):(b+1)*(size-c)], dy[b*size+c:])
				}
			}))
		}
		if token != nil {
			steps = append(steps, func() {
				copy(token, dy)
				for b := 1; b < s[0]; b++ {
					f32.AddTo(token, dy[b*size:b*size+c])
				}
			})
		}
		return then(steps...)
	}}, nil
}
