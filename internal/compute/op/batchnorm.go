package op

import (
	"fmt"
	"hash"
	"math"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// BatchNormState holds what a batch normalisation remembers between steps. It
// is state, not a parameter: nothing differentiates it. Do in training changes
// Mean and Var in place; nothing here may run beside that.
type BatchNormState struct {
	Name string        // unique in its graph, "layer1.0.bn1"
	Mean *tensor.Dense // running mean (C), starts at 0
	Var  *tensor.Dense // running variance (C), starts at 1
}

// BatchNorm2D normalises each channel (Ioffe and Szegedy, 2015, algorithm 1):
//
//	training:   m_c = mean over n,h,w of x;  v_c = mean of (x−m_c)², biased
//	evaluation: m_c = State.Mean[c];         v_c = State.Var[c]
//	y = gamma_c·(x−m_c)·invstd_c + beta_c,   invstd_c = 1/√(v_c+Eps)
//
// and in training moves the running statistics, with M = N·H·W, by
//
//	Mean ← (1−Momentum)·Mean + Momentum·m_c
//	Var  ← (1−Momentum)·Var  + Momentum·v_c·M/(M−1)
//
// Momentum is the weight of the new batch, as in PyTorch (0.1); MXNet writes the
// same as 0.9. Like PyTorch, the running variance is the unbiased one; MXNet
// keeps the biased one, which differs by M/(M−1). One value of a channel has no
// variance: for M = 1 training uses the running statistics, as evaluation does,
// and leaves them as they are.
//
// In training, images of examples that are not there (see Mode) have no part in m, v and M; they
// are normalised as the others. If there is none, y is 0 and the running statistics stay as they
// are.
//
// Arguments: x (N,C,H,W), gamma (C), beta (C).
// Result: Tuple{y like x, m (C), invstd (C)}; y is Take 0.
// Gradients: dx, dgamma, dbeta from one BatchNorm2DGrad node.
type BatchNorm2D struct {
	traits
	Eps      float64
	Momentum float64
	State    *BatchNormState
	Mode     *Mode
}

func (o *BatchNorm2D) Arity() int    { return 3 }
func (o *BatchNorm2D) Type() hm.Type { return fn(4, 1, 1, 4) }
func (o *BatchNorm2D) String() string {
	return fmt.Sprintf("BatchNorm2D{%q eps %g momentum %g}", o.State.Name, o.Eps, o.Momentum)
}
func (o *BatchNorm2D) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *BatchNorm2D) Hashcode() uint32      { return hashcode(o) }
func (o *BatchNorm2D) DiffWRT(int) []bool    { return []bool{true, true, true} }

// StateName is State.Name.
func (o *BatchNorm2D) StateName() string { return o.State.Name }

// SetTraining lets gorgonia's own machines switch the mode (gorgonia.EvalMode).
func (o *BatchNorm2D) SetTraining(training bool) error { o.Mode.Inference = !training; return nil }

func (o *BatchNorm2D) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4, 1, 1)
	if err != nil {
		return nil, err
	}
	c := s[0][1]
	if s[1][0] != c || s[2][0] != c || o.State.Mean.Shape().TotalSize() != c || o.State.Var.Shape().TotalSize() != c {
		return nil, fmt.Errorf("op: %v: x %v has %d channels, gamma is %v, beta %v, running mean %v and variance %v", o, s[0], c, s[1], s[2], o.State.Mean.Shape(), o.State.Var.Shape())
	}
	return s[0].Clone(), nil
}

func (o *BatchNorm2D) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, batchNorm2D[float32], batchNorm2D[float64])
}

func batchNorm2D[T float](o *BatchNorm2D, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	if o.State.Mean.Dtype() != in[0].Dtype() || o.State.Var.Dtype() != in[0].Dtype() {
		return nil, fmt.Errorf("op: do %v: x is %v and the running statistics %v", o, in[0].Dtype(), o.State.Mean.Dtype())
	}
	c, hw := shape[1], shape[2]*shape[3]
	yt, y := dense[T](shape)
	mt, mean := dense[T](tensor.Shape{c})
	it, invstd := dense[T](tensor.Shape{c})
	x, gamma, beta := numbers[T](in[0]), numbers[T](in[1]), numbers[T](in[2])
	runMean, runVar := numbers[T](o.State.Mean), numbers[T](o.State.Var)

	// images are those that count.
	images := shape.Clone()
	if !o.Mode.Inference {
		images[0] = o.Mode.Rows(shape[0])
	}
	if images[0] == 0 {
		return &Tuple{Values: []*tensor.Dense{yt, mt, it}}, nil
	}
	count, fixed := float64(images[0]*hw), o.Mode.Inference || images[0]*hw == 1
	for k := range c {
		if fixed {
			mean[k] = runMean[k]
			invstd[k] = T(1 / math.Sqrt(float64(runVar[k])+o.Eps))
		} else {
			m := sumChannel(x, images, k, func(v T) float64 { return float64(v) }) / count
			v := sumChannel(x, images, k, func(v T) float64 { d := float64(v) - m; return d * d }) / count
			mean[k], invstd[k] = T(m), T(1/math.Sqrt(v+o.Eps))
			runMean[k] = T((1-o.Momentum)*float64(runMean[k]) + o.Momentum*m)
			runVar[k] = T((1-o.Momentum)*float64(runVar[k]) + o.Momentum*v*count/(count-1))
		}
	}
	for i := range y {
		k := i / hw % c
		y[i] = gamma[k]*(x[i]-mean[k])*invstd[k] + beta[k]
	}
	return &Tuple{Values: []*tensor.Dense{yt, mt, it}}, nil
}

// sumChannel sums f over channel k of x, in float64.
func sumChannel[T float](x []T, shape tensor.Shape, k int, f func(T) float64) (sum float64) {
	c, hw := shape[1], shape[2]*shape[3]
	for n := range shape[0] {
		for _, v := range x[(n*c+k)*hw : (n*c+k+1)*hw] {
			sum += f(v)
		}
	}
	return sum
}

func (o *BatchNorm2D) SymDiff(in gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	d, err := Apply(&BatchNorm2DGrad{Name: o.State.Name, Mode: o.Mode}, in[0], in[1], out, grad)
	if err != nil {
		return nil, err
	}
	return takeEach(d, in)
}

// BatchNorm2DGrad is the backward pass of BatchNorm2D, with x̂ = (x−m)·invstd,
// M = N·H·W and sums over n,h,w:
//
//	dbeta = Σ dy;  dgamma = Σ dy·x̂
//	training:            dx = gamma·invstd·(dy − dbeta/M − x̂·dgamma/M)
//	evaluation, M = 1:   dx = gamma·invstd·dy
//
// Images of examples that are not there have no part in sums and in M, and their dx is 0.
//
// Arguments: x (N,C,H,W), gamma (C), the BatchNorm2D node's Tuple (m and invstd
// are read, y is not), dy like x. Result: Tuple{dx like x, dgamma (C), dbeta (C)}.
type BatchNorm2DGrad struct {
	gradient

	// Name is that of the BatchNorm2D's state.
	Name string

	Mode *Mode
}

func (o *BatchNorm2DGrad) Arity() int            { return 4 }
func (o *BatchNorm2DGrad) Type() hm.Type         { return fn(4, 1, 4, 4, 4) }
func (o *BatchNorm2DGrad) String() string        { return fmt.Sprintf("BatchNorm2DGrad{%q}", o.Name) }
func (o *BatchNorm2DGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *BatchNorm2DGrad) Hashcode() uint32      { return hashcode(o) }

func (o *BatchNorm2DGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4, 1, 4, 4)
	if err != nil {
		return nil, err
	}
	if s[1][0] != s[0][1] || !s[2].Eq(s[0]) || !s[3].Eq(s[0]) {
		return nil, fmt.Errorf("op: %v: x is %v, gamma %v, y %v, dy %v", o, s[0], s[1], s[2], s[3])
	}
	return s[0].Clone(), nil
}

func (o *BatchNorm2DGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, batchNorm2DGrad[float32], batchNorm2DGrad[float64])
}

func batchNorm2DGrad[T float](o *BatchNorm2DGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	saved, ok := in[2].(*Tuple)
	if !ok || len(saved.Values) != 3 {
		return nil, fmt.Errorf("op: do %v: argument 2 is %T, want the Tuple of a BatchNorm2D", o, in[2])
	}
	c, hw := shape[1], shape[2]*shape[3]
	xt, dx := dense[T](shape)
	gt, dgamma := dense[T](tensor.Shape{c})
	bt, dbeta := dense[T](tensor.Shape{c})
	x, gamma, dy := numbers[T](in[0]), numbers[T](in[1]), numbers[T](in[3])
	mean, invstd := numbers[T](saved.Values[1]), numbers[T](saved.Values[2])
	there := len(dy)
	if !o.Mode.Inference {
		there = hw * c * o.Mode.Rows(shape[0])
	}
	dy = dy[:there]
	sumDy, sumDyX := make([]float64, c), make([]float64, c)
	for i, d := range dy {
		k := i / hw % c
		sumDy[k] += float64(d)
		sumDyX[k] += float64(d * (x[i] - mean[k]) * invstd[k])
	}
	for k := range c {
		dbeta[k], dgamma[k] = T(sumDy[k]), T(sumDyX[k])
	}
	count := T(there / c)
	for i, d := range dy {
		k := i / hw % c
		if !o.Mode.Inference && there != c {
			d -= dbeta[k]/count + (x[i]-mean[k])*invstd[k]*dgamma[k]/count
		}
		dx[i] = gamma[k] * invstd[k] * d
	}
	return &Tuple{Values: []*tensor.Dense{xt, gt, bt}}, nil
}
