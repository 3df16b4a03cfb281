package cpu

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A norms has the kernels of batch normalisation and of its gradient, over channels last.
type norms struct {
	mem      *memory
	threads  threads
	examples *examples
	running  *runningStates

	// inference is true for a plan that never trains: it takes the running statistics.
	inference bool
}

func (n *norms) builders() builders {
	return builders{plan.BatchNorm: n.batchNorm, plan.BatchNormGrad: n.batchNormGrad}
}

// batchNorm is op.BatchNorm2D with the residual and the ReLU, or another activation, that follow: one pass for the
// statistics and one that writes y.
func (n *norms) batchNorm(o *plan.Op) (kernel, error) {
	bn := o.Attr.(*op.BatchNorm2D)
	state := n.mem.host.States[bn.State.Name]
	if state == nil {
		return kernel{}, fmt.Errorf("there is no state %q", bn.State.Name)
	}
	behind, err := activationBehind(o)
	if err != nil {
		return kernel{}, err
	}
	c := o.In[0].Channels()
	rows, images := o.In[0].Len()/c, o.In[0].Shape[0]
	return kernel{doubles: sumDoubles(rows, c), bind: func() func() error {
		x, y := n.mem.array(o.In[0]), n.mem.array(o.Out[0])
		var res f32.Array
		if len(o.In) > 3 {
			res = n.mem.array(o.In[3])
		}
		line := n.lineOf(o, bn.Eps)
		normalise := n.threads.split(rows, rowGrain(c), func(lo, hi int) {
			y := y.Part(lo*c, hi*c)
			scaleShift(y, x.Part(lo*c, hi*c), res.Part(lo*c, hi*c), line.scale, line.shift, o.ReLU)
			if behind != nil {
				behind.apply(y, y)
			}
		})
		if n.inference || o.Frozen {
			return then(func() { line.fix(state) }, normalise)
		}
		batch, running := newMoments(n.threads, n.mem.doubles(sumDoubles(rows, c)), x, c), n.running.of(state)
		return then(func() {
			// there is how many of the rows are of examples.
			there := rows / images * n.examples.rows(images)
			if there == 1 {
				line.fix(running.now())
				return
			}
			batch.compute(there)
			line.fit(batch)
			m := float64(there)
			for k := range c {
				running.move(k, bn.Momentum, batch.mean[k], batch.variance[k]*m/(m-1))
			}
			running.moved = true
		}, normalise)
	}}, nil
}

// A normLine is a batch normalisation of known statistics: y = x·scale + shift for each channel.
type normLine struct {
	gamma, beta  []float32
	mean, invstd []float32
	eps          float64

	scale, shift []float32
}

// lineOf is the line of op o. Its mean and invstd are where the gradient looks for them, if there
// is one.
func (n *norms) lineOf(o *plan.Op, eps float64) *normLine {
	c := o.In[0].Channels()
	l := &normLine{gamma: n.mem.floats(o.In[1]), beta: n.mem.floats(o.In[2]), eps: eps,
		scale: make([]float32, c), shift: make([]float32, c), mean: make([]float32, c), invstd: make([]float32, c)}
	if len(o.Out) > 1 && o.Out[1] != nil {
		l.mean = n.mem.floats(o.Out[1])
	}
	if len(o.Out) > 2 && o.Out[2] != nil {
		l.invstd = n.mem.floats(o.Out[2])
	}
	return l
}

// fix takes the statistics of a state.
func (l *normLine) fix(s *plan.State) {
	for k := range l.mean {
		l.mean[k], l.invstd[k] = s.Mean[k], float32(1/math.Sqrt(float64(s.Var[k])+l.eps))
	}
	l.coefficients()
}

// fit takes the statistics of a batch.
func (l *normLine) fit(batch *moments) {
	for k := range l.mean {
		l.mean[k], l.invstd[k] = float32(batch.mean[k]), float32(1/math.Sqrt(batch.variance[k]+l.eps))
	}
	l.coefficients()
}

// coefficients sets scale and shift of the statistics that there are.
func (l *normLine) coefficients() {
	for k := range l.scale {
		l.scale[k] = l.gamma[k] * l.invstd[k]
		l.shift[k] = l.beta[k] - l.mean[k]*l.scale[k]
	}
}
