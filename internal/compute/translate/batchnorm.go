package translate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// batchNorm makes the op of gorgonia.BatchNorm ours, with a scale of 1 and a shift of 0: scale and
// bias are nodes of their own behind it.
func batchNorm(t *translator, n *gorgonia.Node) (*rewrite, error) {
	b, err := normalisationOf(n)
	if err != nil {
		return nil, err
	}
	return &rewrite{from: op.Children(n), fuses: n.Op(), build: func(x gorgonia.Nodes) (*gorgonia.Node, error) {
		gamma, err := filled(n.Dtype(), b.channels(), 1)
		if err != nil {
			return nil, err
		}
		beta, err := filled(n.Dtype(), b.channels(), 0)
		if err != nil {
			return nil, err
		}
		return b.apply(t, n, t.name("batchnorm", n), x[0], gamma, beta)
	}}, nil
}

// scaledBatchNorm joins a batch normalisation with the scale and bias behind it where they are
// numbers of a channel: scale·x̂ + bias, as gorgonia.BatchNorm makes it of a scale and a bias of
// shape (1,C,1,1), or (1,C) for a matrix.
func scaledBatchNorm(t *translator, n *gorgonia.Node) (*rewrite, error) {
	scaled, bias := operands(n, "+ false")
	if scaled == nil || t.uses[scaled] != 1 {
		return nil, nil
	}
	scale, norm := operands(scaled, "⊙ false")
	if norm == nil || opType(norm) != "*gorgonia.BatchNormOp" {
		scale, norm = norm, scale
	}
	if norm == nil || opType(norm) != "*gorgonia.BatchNormOp" || t.uses[norm] != 1 {
		return nil, nil
	}
	gamma, beta := ofChannels(scale, n.Shape()), ofChannels(bias, n.Shape())
	if gamma == nil || beta == nil {
		return nil, nil
	}
	b, err := normalisationOf(norm)
	if err != nil {
		return nil, err
	}
	name := t.name("batchnorm", norm)
	if own, ok := strings.CutSuffix(gamma.Name(), ".weight"); ok && gamma.Op() == nil {
		name = own
	}
	return &rewrite{from: gorgonia.Nodes{op.Children(norm)[0], gamma, beta}, fuses: norm.Op(), build: func(x gorgonia.Nodes) (*gorgonia.Node, error) {
		c := tensor.Shape{b.channels()}
		for i := 1; i < 3; i++ {
			var err error
			if x[i], err = op.Apply(&op.Reshape{From: x[i].Shape(), To: c}, x[i]); err != nil {
				return nil, err
			}
		}
		return b.apply(t, norm, name, x[0], x[1], x[2])
	}}, nil
}

// operands are the two arguments of n if its op is gorgonia's elementwise one of this text.
func operands(n *gorgonia.Node, text string) (a, b *gorgonia.Node) {
	if opType(n) != "gorgonia.elemBinOp" || fmt.Sprint(n.Op()) != text {
		return nil, nil
	}
	c := op.Children(n)
	return c[0], c[1]
}

// ofChannels goes down from a node that was repeated to the shape of x (N,C,H,W) or (N,C) to what
// was repeated; nil if that is no number for each channel, of shape (1,C,1,1) or (1,C).
func ofChannels(n *gorgonia.Node, x tensor.Shape) *gorgonia.Node {
	want := slices.Repeat([]int{1}, len(x))
	want[1] = x[1]
	for opType(n) == "*gorgonia.repeatOp" || opType(n) == "gorgonia.reshapeOp" && op.Children(n)[0].Shape().Eq(n.Shape()) {
		n = op.Children(n)[0]
	}
	if n.IsScalar() || !n.Shape().Eq(tensor.Shape(want)) {
		return nil
	}
	return n
}

// filled is a constant of c equal numbers.
func filled(dt tensor.Dtype, c int, x float64) (*gorgonia.Node, error) {
	v := tensor.New(tensor.Of(dt), tensor.WithShape(c))
	var err error
	if dt == tensor.Float64 {
		err = v.Memset(x)
	} else {
		err = v.Memset(float32(x))
	}
	return gorgonia.NewConstant(v, gorgonia.WithName(fmt.Sprintf("paragon.%g of %d %v", x, c, dt))), err
}

// normalisation is what gorgonia.BatchNorm knows.
type normalisation struct {
	momentum, eps  float64
	mean, variance *tensor.Dense
}

func (b *normalisation) channels() int { return b.mean.Shape().TotalSize() }

// normalisationOf reads a BatchNormOp. Its running variance is 0 until a machine of gorgonia's has
// run it, which sets it to 1; so do we.
func normalisationOf(n *gorgonia.Node) (*normalisation, error) {
	o := n.Op().(*gorgonia.BatchNormOp)
	a := attributesOf(o)
	b := &normalisation{momentum: a.float("momentum"), eps: a.float("epsilon")}
	if a.missing != nil {
		return nil, fmt.Errorf("%w; use nn.BatchNorm2D", a.missing)
	}
	mean, variance := o.Stats()
	var okMean, okVar bool
	b.mean, okMean = mean.(*tensor.Dense)
	b.variance, okVar = variance.(*tensor.Dense)
	s := n.Shape()
	if !okMean || !okVar || s.Dims() != 2 && s.Dims() != 4 || s[1] != b.channels() || !isFloat(n) {
		return nil, fmt.Errorf("gorgonia.BatchNorm of %v of shape %v, want float32 of shape (N,C) or (N,C,H,W); use nn.BatchNorm2D", n.Dtype(), s)
	}
	if !(b.momentum >= 0 && b.momentum <= 1) || !(b.eps >= 0) {
		return nil, fmt.Errorf("gorgonia.BatchNorm with momentum %g and epsilon %g, want 0 ≤ momentum ≤ 1 and epsilon ≥ 0", b.momentum, b.eps)
	}
	return b, nil
}

// apply makes node n of x, gamma and beta. The running statistics are those of gorgonia's op, which
// goes on to show them.
func (b *normalisation) apply(t *translator, n *gorgonia.Node, name string, x, gamma, beta *gorgonia.Node) (*gorgonia.Node, error) {
	if err := t.registry.Claim(name); err != nil {
		return nil, fmt.Errorf("gorgonia.BatchNorm: %w; use nn.BatchNorm2D, which takes a name, or name the scales apart", err)
	}
	if zeros(b.mean) && zeros(b.variance) {
		if err := n.Op().(*gorgonia.BatchNormOp).Reset(); err != nil {
			return nil, err
		}
	}
	shape := x.Shape()
	images := shape
	if shape.Dims() == 2 {
		images = tensor.Shape{shape[0], shape[1], 1, 1}
		var err error
		if x, err = op.Apply(&op.Reshape{From: shape, To: images}, x); err != nil {
			return nil, err
		}
	}
	state := &op.BatchNormState{Name: name, Mean: b.mean, Var: b.variance}
	all, err := op.Apply(&op.BatchNorm2D{Eps: b.eps, Momentum: b.momentum, State: state, Mode: t.registry.Mode}, x, gamma, beta)
	if err != nil {
		return nil, err
	}
	t.registry.AddTranslatedState(state)
	y, err := op.Apply(&op.Take{Shape: images, From: 4}, all)
	if err != nil || shape.Dims() == 4 {
		return y, err
	}
	return op.Apply(&op.Reshape{From: images, To: shape}, y)
}

func zeros(t *tensor.Dense) bool {
	switch x := t.Data().(type) {
	case []float32:
		return !slices.ContainsFunc(x, func(v float32) bool { return v != 0 })
	case []float64:
		return !slices.ContainsFunc(x, func(v float64) bool { return v != 0 })
	}
	return false
}
