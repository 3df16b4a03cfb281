package ref

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// dense is a value as ops take it.
func (r *Replay) dense(v *plan.Value) (gorgonia.Value, error) {
	m, err := r.numbers(v)
	if err != nil {
		return nil, err
	}
	if len(v.Shape) == 0 {
		return gorgonia.NewF64(m[0]), nil
	}
	return tensor.New(tensor.WithShape(v.Shape.Clone()...), tensor.WithBacking(m)), nil
}

// operandOf is a value that is multiplied.
func (r *Replay) operandOf(v *plan.Value) ([]float64, error) {
	m, err := r.numbers(v)
	return r.operand.rounded(m), err
}

// do runs an op's loops over values.
func (r *Replay) do(o gorgonia.Op, in ...*plan.Value) ([][]float64, error) {
	args := make([]gorgonia.Value, len(in))
	for i, v := range in {
		var err error
		if args[i], err = r.dense(v); err != nil {
			return nil, err
		}
	}
	return results(o, args...)
}

func results(o gorgonia.Op, args ...gorgonia.Value) ([][]float64, error) {
	v, err := o.Do(args...)
	if err != nil {
		return nil, err
	}
	t, ok := v.(*op.Tuple)
	if !ok {
		m, err := Numbers(v)
		return [][]float64{m}, err
	}
	var out [][]float64
	for _, d := range t.Values {
		out = append(out, d.Data().([]float64))
	}
	return out, nil
}

// compute gives the exact results of an op. Where an executor may round a part of result 0 before
// it adds the rest, slack is half a step of that.
func (r *Replay) compute(o *plan.Op) (out [][]float64, slack []float64, err error) {
	switch o.Kind {
	case plan.Convert, plan.Copy:
		m, err := r.numbers(o.In[0])
		return [][]float64{m}, nil, err
	case plan.Add, plan.ReLU, plan.ReLUGrad:
		out, err = r.elementwise(o)
	case plan.Conv2D, plan.ConvBackwardData, plan.ConvBackwardWeight:
		return r.convolution(o)
	case plan.BatchNorm:
		return r.batchNorm(o)
	case plan.BatchNormGrad:
		return r.batchNormGrad(o)
	case plan.MaxPool:
		out, err = r.maxPool(o)
	case plan.MaxPoolGrad:
		out, err = r.maxPoolGrad(o)
		return out, nil, err
	case plan.AttentionGrad:
		out, err = r.attentionGrad(o)
	case plan.Linear:
		return r.linear(o)
	case plan.LinearGrad:
		out, err = r.linearGrad(o)
	case plan.MatMul:
		out, err = r.matMul(o)
	case plan.Generic:
		err = fmt.Errorf("a replay has no such op")
	default:
		out, err = r.do(r.withMode(o.Attr), o.In...)
	}
	if err == nil && o.ReLU {
		rectify(out[0])
	}
	return out, nil, err
}

// maxPool keeps its argument for the gradient, which asks for it.
func (r *Replay) maxPool(o *plan.Op) ([][]float64, error) {
	if len(o.Out) > 1 && o.Out[1] != nil {
		x, err := r.dense(o.In[0])
		if err != nil {
			return nil, err
		}
		r.pooled[o.Out[1].Root()] = x.(*tensor.Dense)
	}
	return r.do(o.Attr, o.In[0])
}

func (r *Replay) maxPoolGrad(o *plan.Op) ([][]float64, error) {
	dy, err := r.dense(o.In[1])
	if err != nil {
		return nil, err
	}
	return results(o.Attr, r.pooled[o.In[0].Root()], dy)
}

// withMode is an op of package op that goes by the step's mode, in place of the graph's; an op that
// has none as it is.
func (r *Replay) withMode(attr gorgonia.Op) gorgonia.Op {
	switch a := attr.(type) {
	case *op.Dropout:
		c := *a
		c.Mode = r.mode()
		return &c
	case *op.Attention:
		c := *a
		c.Mode = r.mode()
		return &c
	case *op.SoftmaxCrossEntropy:
		c := *a
		c.Mode = r.modeLike(c.Mode)
		return &c
	case *op.SoftmaxCrossEntropyGrad:
		c := *a
		c.Mode = r.modeLike(c.Mode)
		return &c
	case *op.SoftCrossEntropy:
		c := *a
		c.Mode = r.modeLike(c.Mode)
		return &c
	case *op.SoftCrossEntropyGrad:
		c := *a
		c.Mode = r.modeLike(c.Mode)
		return &c
	case *op.BinaryCrossEntropy:
		c := *a
		c.Mode = r.modeLike(c.Mode)
		return &c
	case *op.BinaryCrossEntropyGrad:
		c := *a
		c.Mode = r.modeLike(c.Mode)
		return &c
	case *op.MSE:
		c := *a
		c.Mode = r.modeLike(c.Mode)
		return &c
	case *op.MSEGrad:
		c := *a
		c.Mode = r.modeLike(c.Mode)
		return &c
	}
	return attr
}

// mode is what the step goes by.
func (r *Replay) mode() *op.Mode {
	return &op.Mode{Inference: r.plan.Inference, Step: r.Step, Stream: r.Stream, Batch: r.plan.Batch, Examples: r.Examples}
}

// modeLike is mode in place of one of the graph's; nil for none.
func (r *Replay) modeLike(m *op.Mode) *op.Mode {
	if m == nil {
		return nil
	}
	return r.mode()
}

// elementwise is done here, since Attr may be gorgonia's own op.
func (r *Replay) elementwise(o *plan.Op) ([][]float64, error) {
	a, err := r.numbers(o.In[0])
	if err != nil {
		return nil, err
	}
	y := slices.Clone(a)
	if o.Kind == plan.ReLU {
		rectify(y)
		return [][]float64{y}, nil
	}
	b, err := r.numbers(o.In[1])
	if err != nil {
		return nil, err
	}
	for k, v := range b {
		switch {
		case o.Kind == plan.Add:
			y[k] += v
		default:
			y[k] = throughReLU(v, a[k])
		}
	}
	return [][]float64{y}, nil
}

// throughReLU is op.ReLUGrad of one value.
func throughReLU(dy, y float64) float64 {
	switch {
	case y > 0:
		return dy
	case y <= 0 && dy == dy:
		return 0
	}
	return dy + y
}

func rectify(y []float64) {
	for i, v := range y {
		if v < 0 {
			y[i] = 0
		}
	}
}

// halfStep is what rounding x may do.
func (r *Replay) halfStep(x []float64) []float64 {
	if r.operand.bits == 0 {
		return nil
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = r.operand.step(v) / 2
	}
	return out
}

// convolution goes image by image, on all cores. The gradient of weights is the sum over images.
func (r *Replay) convolution(o *plan.Op) (out [][]float64, slack []float64, err error) {
	a, err := r.operandOf(o.In[0])
	if err != nil {
		return nil, nil, err
	}
	b, err := r.operandOf(o.In[1])
	if err != nil {
		return nil, nil, err
	}
	images, sum := o.Out[0].Shape[0], false
	if o.Kind == plan.ConvBackwardWeight {
		images, sum = o.In[0].Shape[0], true
	}
	one, err := ofOneImage(o, a, b)
	if err != nil {
		return nil, nil, err
	}
	parts, err := inParallel(images, one)
	if err != nil {
		return nil, nil, err
	}
	y := make([]float64, o.Out[0].Len())
	for n, part := range parts {
		if !sum {
			copy(y[n*len(part):], part)
			continue
		}
		for k, v := range part {
			y[k] += v
		}
	}

	// The third argument is the gradient that comes over the shortcut.
	if len(o.In) > 2 {
		slack = r.halfStep(y)
		rest, err := r.numbers(o.In[2])
		if err != nil {
			return nil, nil, err
		}
		for k, v := range rest {
			y[k] += v
		}
	}
	return [][]float64{y}, slack, nil
}

// ofOneImage returns a function that computes a convolution, or a gradient of it, of one image. a
// and b are the numbers of its arguments.
func ofOneImage(o *plan.Op, a, b []float64) (func(n int) ([][]float64, error), error) {
	image := func(x []float64, s tensor.Shape, n int) *tensor.Dense {
		shape, size := s.Clone(), s.TotalSize()/s[0]
		shape[0] = 1
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(x[n*size:(n+1)*size]))
	}
	whole := func(x []float64, s tensor.Shape) *tensor.Dense {
		return tensor.New(tensor.WithShape(s.Clone()...), tensor.WithBacking(x))
	}
	as, bs := o.In[0].Shape, o.In[1].Shape
	switch c := o.Attr.(type) {
	case *op.Conv2D:
		return func(n int) ([][]float64, error) { return results(c, image(a, as, n), whole(b, bs)) }, nil
	case *op.Conv2DBackwardData:
		d := *c
		d.XShape = c.XShape.Clone()
		d.XShape[0] = 1
		return func(n int) ([][]float64, error) { return results(&d, whole(a, as), image(b, bs, n)) }, nil
	case *op.Conv2DBackwardWeight:
		return func(n int) ([][]float64, error) { return results(c, image(a, as, n), image(b, bs, n)) }, nil
	}
	return nil, fmt.Errorf("its attributes are %T", o.Attr)
}

// inParallel calls one for each of n numbers, on all cores, and returns their first results.
func inParallel(n int, one func(i int) ([][]float64, error)) ([][]float64, error) {
	parts, errs := make([][]float64, n), make([]error, n)
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	var wait sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for i := range next {
				out, err := one(i)
				if errs[i] = err; err == nil {
					parts[i] = out[0]
				}
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// normMode is the mode of a normalisation: a frozen one is as in inference.
func (r *Replay) normMode(o *plan.Op) *op.Mode {
	m := r.mode()
	m.Inference = m.Inference || o.Frozen
	return m
}

func (r *Replay) batchNorm(o *plan.Op) ([][]float64, []float64, error) {
	a := o.Attr.(*op.BatchNorm2D)
	state := r.states[a.State.Name]
	if state == nil {
		return nil, nil, fmt.Errorf("there is no state %q", a.State.Name)
	}
	bn := &op.BatchNorm2D{Eps: a.Eps, Momentum: a.Momentum, State: state, Mode: r.normMode(o)}
	out, err := r.do(bn, o.In[:3]...)
	if err != nil {
		return nil, nil, err
	}
	if len(o.In) > 3 {
		rest, err := r.numbers(o.In[3])
		if err != nil {
			return nil, nil, err
		}
		for k, v := range rest {
			out[0][k] += v
		}
	}
	if o.ReLU {
		rectify(out[0])
	}
	return out, nil, nil
}

// attentionGrad makes a tuple of what the forward pass saved.
func (r *Replay) attentionGrad(o *plan.Op) ([][]float64, error) {
	args := make([]gorgonia.Value, len(o.In))
	for i, v := range o.In {
		var err error
		if args[i], err = r.dense(v); err != nil {
			return nil, err
		}
	}
	a := o.Attr.(*op.AttentionGrad)
	n := a.Forward.Arguments()
	saved := &op.Tuple{Values: []*tensor.Dense{args[n].(*tensor.Dense), args[n+1].(*tensor.Dense)}}
	grad := &op.AttentionGrad{Forward: r.withMode(a.Forward).(*op.Attention)}
	return results(grad, append(args[:n:n], saved, args[n+2])...)
}

func (r *Replay) batchNormGrad(o *plan.Op) ([][]float64, []float64, error) {
	dy, err := r.numbers(o.In[4])
	if err != nil {
		return nil, nil, err
	}

	// The ReLU behind it has a gradient of its own.
	if o.In[5] != nil {
		y, err := r.numbers(o.In[5])
		if err != nil {
			return nil, nil, err
		}
		dz := make([]float64, len(dy))
		for k, v := range y {
			dz[k] = throughReLU(dy[k], v)
		}
		dy = dz
	}
	x, err := r.dense(o.In[0])
	if err != nil {
		return nil, nil, err
	}
	gamma, err := r.dense(o.In[1])
	if err != nil {
		return nil, nil, err
	}

	// The first value of what the forward pass saved is not read.
	saved := &op.Tuple{Values: []*tensor.Dense{x.(*tensor.Dense)}}
	for _, v := range o.In[2:4] {
		m, err := r.numbers(v)
		if err != nil {
			return nil, nil, err
		}
		saved.Values = append(saved.Values, vector(m))
	}
	d := tensor.New(tensor.WithShape(o.In[4].Shape.Clone()...), tensor.WithBacking(dy))
	out, err := results(&op.BatchNorm2DGrad{Mode: r.normMode(o)}, x, gamma, saved, d)
	return append(out, dy), nil, err
}

func (r *Replay) linear(o *plan.Op) ([][]float64, []float64, error) {
	out, err := r.product(o.In[0], o.In[1], false, true)
	if err != nil {
		return nil, nil, err
	}
	y := out
	var slack []float64
	if len(o.In) > 2 {
		slack = r.halfStep(y)
		b, err := r.numbers(o.In[2])
		if err != nil {
			return nil, nil, err
		}
		for k := range y {
			y[k] += b[k%len(b)]
		}
	}
	if o.ReLU {
		rectify(y)
	}
	return [][]float64{y}, slack, nil
}

func (r *Replay) linearGrad(o *plan.Op) ([][]float64, error) {
	x, w, dy := o.In[0], o.In[1], o.In[2]
	out := make([][]float64, len(o.Out))
	var err error
	if o.Out[0] != nil {
		if out[0], err = r.product(dy, w, false, false); err != nil {
			return nil, err
		}
	}
	if o.Out[1] != nil {
		if out[1], err = r.product(dy, x, true, false); err != nil {
			return nil, err
		}
	}
	if len(o.Out) > 2 && o.Out[2] != nil {
		m, err := r.numbers(dy)
		if err != nil {
			return nil, err
		}
		out[2] = make([]float64, dy.Shape[1])
		for k, v := range m {
			out[2][k%len(out[2])] += v
		}
	}
	return out, nil
}

func (r *Replay) matMul(o *plan.Op) ([][]float64, error) {
	y, err := r.product(o.In[0], o.In[1], o.TransA, o.TransB)
	return [][]float64{y}, err
}

// product is a·b, each transposed first if so said.
func (r *Replay) product(va, vb *plan.Value, transA, transB bool) ([]float64, error) {
	a, err := r.operandOf(va)
	if err != nil {
		return nil, err
	}
	b, err := r.operandOf(vb)
	if err != nil {
		return nil, err
	}
	m, k, n := va.Shape[0], va.Shape[1], vb.Shape[1]
	if transA {
		m, k = k, m
	}
	if transB {
		n = vb.Shape[0]
	}
	at := func(x []float64, i, j, rows, columns int, trans bool) float64 {
		if trans {
			return x[j*rows+i]
		}
		return x[i*columns+j]
	}
	y := make([]float64, m*n)
	for i := range m {
		for j := range n {
			var sum float64
			for l := range k {
				sum += at(a, i, l, m, k, transA) * at(b, l, j, k, n, transB)
			}
			y[i*n+j] = sum
		}
	}
	return y, nil
}
