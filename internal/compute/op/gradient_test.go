package op_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/ref"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// leaf makes a float64 leaf with distinct normal values.
func leaf(g *gorgonia.ExprGraph, name string, shape ...int) *gorgonia.Node {
	return leafOf(g, tensor.Float64, name, shape...)
}

func leafOf(g *gorgonia.ExprGraph, dt tensor.Dtype, name string, shape ...int) *gorgonia.Node {
	r := rand.New(rand.NewPCG(1, uint64(len(name))*1000+uint64(name[len(name)-1])))
	n := tensor.Shape(shape).TotalSize()
	var backing any
	switch dt {
	case tensor.Float64:
		d := make([]float64, n)
		for i := range d {
			d[i] = r.NormFloat64()
		}
		backing = d
	case tensor.Float32:
		d := make([]float32, n)
		for i := range d {
			d[i] = float32(r.NormFloat64())
		}
		backing = d
	}
	t := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(backing))
	return gorgonia.NewTensor(g, dt, len(shape), gorgonia.WithShape(shape...), gorgonia.WithName(name), gorgonia.WithValue(t))
}

func ints(g *gorgonia.ExprGraph, name string, values []int32, shape ...int) *gorgonia.Node {
	t := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(values))
	n := gorgonia.NewTensor(g, tensor.Int32, len(shape), gorgonia.WithShape(shape...), gorgonia.WithName(name), gorgonia.WithValue(t))
	op.RegistryOf(g).SetRole(n, op.RoleInput)
	return n
}

// targets is an input like x.
func targets(x *gorgonia.Node, values ...float32) *gorgonia.Node {
	n := leafOf(x.Graph(), x.Dtype(), "targets", x.Shape()...)
	for i, v := range values {
		switch to := n.Value().Data().(type) {
		case []float32:
			to[i] = v
		case []float64:
			to[i] = float64(v)
		}
	}
	op.RegistryOf(x.Graph()).SetRole(n, op.RoleInput)
	return n
}

func must(n *gorgonia.Node, err error) *gorgonia.Node {
	if err != nil {
		panic(err)
	}
	return n
}

// lossOf weights every element of y differently and sums, so that no mistake in
// a gradient cancels.
func lossOf(y *gorgonia.Node) *gorgonia.Node {
	if y.IsScalar() {
		return y
	}
	w := leafOf(y.Graph(), y.Dtype(), "weights of the loss", y.Shape()...)
	op.RegistryOf(y.Graph()).SetRole(w, op.RoleInput)
	return must(gorgonia.Sum(must(gorgonia.HadamardProd(y, w))))
}

func state(g *gorgonia.ExprGraph, name string, dt tensor.Dtype, channels int) *op.BatchNormState {
	s := &op.BatchNormState{
		Name: name,
		Mean: tensor.New(tensor.Of(dt), tensor.WithShape(channels)),
		Var:  tensor.Ones(dt, channels),
	}
	op.RegistryOf(g).AddState(s)
	return s
}

func batchNorm(x, gamma, beta *gorgonia.Node, name string) *gorgonia.Node {
	g := x.Graph()
	bn := must(op.Apply(&op.BatchNorm2D{Eps: 1e-5, Momentum: 0.1, State: state(g, name, x.Dtype(), x.Shape()[1]), Mode: op.RegistryOf(g).Mode}, x, gamma, beta))
	return must(op.Apply(&op.Take{Shape: x.Shape(), From: 4}, bn))
}

var one, two, three = [2]int{1, 1}, [2]int{2, 2}, [2]int{3, 3}

// graphs builds each op over leaves, in either float type.
var graphs = []struct {
	name  string
	build func(g *gorgonia.ExprGraph, leaf func(name string, shape ...int) *gorgonia.Node) *gorgonia.Node
}{
	{"Conv2D 3x3 pad 1", conv(op.Conv2D{Stride: one, Pad: one}, []int{2, 3, 5, 4}, []int{4, 3, 3, 3})},
	{"Conv2D 3x3 stride 2 pad 1", conv(op.Conv2D{Stride: two, Pad: one}, []int{2, 2, 6, 5}, []int{3, 2, 3, 3})},
	{"Conv2D 1x1 stride 2", conv(op.Conv2D{Stride: two}, []int{2, 3, 4, 5}, []int{2, 3, 1, 1})},
	{"Conv2D 7x7 stride 2 pad 3", conv(op.Conv2D{Stride: two, Pad: three}, []int{1, 2, 8, 8}, []int{2, 2, 7, 7})},
	{"Conv2D uneven", conv(op.Conv2D{Stride: [2]int{1, 2}, Pad: [2]int{0, 1}}, []int{1, 2, 5, 6}, []int{2, 2, 2, 3})},
	{"Conv2D in two groups", conv(op.Conv2D{Stride: one, Pad: one, Reach: op.Reach{Groups: 2}}, []int{2, 4, 4, 3}, []int{6, 2, 3, 3})},
	{"Conv2D with dilation", conv(op.Conv2D{Stride: one, Pad: two, Reach: op.Reach{Dilation: [2]int{2, 1}}}, []int{1, 2, 6, 5}, []int{3, 2, 3, 3})},
	{"Conv2D with more padding at the end", conv(op.Conv2D{Stride: two, Reach: op.Reach{PadMore: one}}, []int{2, 2, 6, 6}, []int{2, 2, 3, 3})},
	{"Conv2D depthwise", conv(op.Conv2D{Stride: two, Pad: one, Reach: op.Reach{Groups: 3}}, []int{2, 3, 5, 4}, []int{3, 1, 3, 3})},
	{"Conv2D depthwise, two filters", conv(op.Conv2D{Stride: one, Pad: one, Reach: op.Reach{Groups: 2}}, []int{1, 2, 4, 4}, []int{4, 1, 3, 3})},
	{"ConvTranspose2D", transposed(op.ConvTranspose2D{Stride: two, Pad: one, OutputPad: one}, []int{2, 3, 3, 4}, []int{3, 2, 3, 3})},
	{"ConvTranspose2D in groups", transposed(op.ConvTranspose2D{Stride: [2]int{2, 1}, Dilation: [2]int{1, 3}, OutputPad: [2]int{0, 2}, Groups: 2}, []int{1, 4, 3, 3}, []int{4, 3, 3, 2})},
	{"BiasAdd 4", func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.BiasAdd{Dims: 4}, leaf("x", 2, 3, 2, 2), leaf("b", 3)))
	}},
	{"BiasAdd 2", func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.BiasAdd{Dims: 2}, leaf("x", 4, 3), leaf("b", 3)))
	}},
	{"BatchNorm2D", func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return batchNorm(leaf("x", 3, 2, 3, 2), leaf("gamma", 2), leaf("beta", 2), "bn")
	}},
	{"ReLU", unary(&op.ReLU{}, 3, 4)},
	{"MaxPool2D 2x2", unary(&op.MaxPool2D{Kernel: two, Stride: two}, 2, 2, 4, 6)},
	{"MaxPool2D 3x3 stride 2 pad 1", unary(&op.MaxPool2D{Kernel: three, Stride: two, Pad: one}, 2, 2, 5, 6)},
	{"AvgPool2D 2x2", unary(&op.AvgPool2D{Kernel: two, Stride: two}, 2, 2, 4, 6)},
	{"AvgPool2D 3x3 stride 2 pad 1", unary(&op.AvgPool2D{Kernel: three, Stride: two, Pad: one}, 2, 2, 5, 6)},
	{"AvgPool2D excluding pad", unary(&op.AvgPool2D{Kernel: three, Stride: two, Pad: one, ExcludePad: true}, 2, 2, 5, 6)},
	{"Upsample2D", unary(&op.Upsample2D{Scale: 3}, 2, 2, 2, 3)},
	{"GlobalAvgPool2D", unary(&op.GlobalAvgPool2D{}, 2, 3, 2, 5)},
	{"Reshape", unary(&op.Reshape{From: tensor.Shape{2, 3, 2}, To: tensor.Shape{4, 3}}, 2, 3, 2)},
	{"Softmax", unary(&op.Softmax{Axis: 1}, 3, 5)},
	{"Softmax along the first axis", unary(&op.Softmax{}, 3, 5)},
	{"LogSoftmax along the middle axis", unary(&op.Softmax{Axis: 1, Log: true}, 2, 3, 4)},
	{"GELU", unary(&op.Activation{Function: op.GELU}, 3, 4)},
	{"GELU by tanh", unary(&op.Activation{Function: op.GELUTanh}, 3, 4)},
	{"SiLU", unary(&op.Activation{Function: op.SiLU}, 3, 4)},
	{"Sigmoid", unary(&op.Activation{Function: op.Sigmoid}, 3, 4)},
	{"Tanh", unary(&op.Activation{Function: op.Tanh}, 3, 4)},
	{"LeakyReLU", unary(&op.Activation{Function: op.LeakyReLU, Slope: 0.1}, 3, 4)},
	{"ReLU6", unary(&op.Activation{Function: op.ReLU6}, 3, 4)},
	{"Softplus", unary(&op.Activation{Function: op.Softplus}, 3, 4)},
	{"SwiGLU", func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.SwiGLU{}, leaf("gate", 2, 3, 2), leaf("up", 2, 3, 2)))
	}},
	{"SoftCrossEntropy without the entropy", func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		x := leaf("x", 2, 3)
		return must(op.Apply(&op.SoftCrossEntropy{Divergence: true}, x, targets(x, 0.2, 0.5, 0.3, 0, 1, 0)))
	}},
	{"Linear", func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.Linear{Bias: true}, leaf("x", 3, 4), leaf("w", 5, 4), leaf("b", 5)))
	}},
	{"Linear without bias", func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.Linear{}, leaf("x", 3, 4), leaf("w", 5, 4)))
	}},
	{"Linear of one row", func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.Linear{Bias: true}, leaf("x", 1, 4), leaf("w", 1, 4), leaf("b", 1)))
	}},
	{"Dropout", func(g *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.Dropout{Rate: 0.4, Seed: 7, Name: "drop", Mode: op.RegistryOf(g).Mode}, leaf("x", 5, 6)))
	}},
	{"Embedding of a matrix of ids", func(g *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.Embedding{IDDims: 2}, leaf("w", 5, 3), ints(g, "ids", []int32{1, 4, 1, 0, 0, 1}, 3, 2)))
	}},
	{"Embedding of a vector of ids", func(g *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.Embedding{IDDims: 1}, leaf("w", 5, 3), ints(g, "ids", []int32{1, 4, 1}, 3)))
	}},
	{"Positions", func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.Positions{First: 1}, leaf("x", 2, 3, 4), leaf("p", 6, 4)))
	}},
	{"ClassToken", func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.ClassToken{}, leaf("x", 2, 3, 4), leaf("token", 1, 1, 4)))
	}},
	{"LinearCrossEntropy", func(g *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.LinearCrossEntropy{}, leaf("x", 4, 3), leaf("w", 5, 3), ints(g, "labels", []int32{0, 4, -1, 1}, 4)))
	}},
	{"LinearCrossEntropy with smoothing", func(g *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.LinearCrossEntropy{Smoothing: 0.2}, leaf("x", 4, 3), leaf("w", 5, 3), ints(g, "labels", []int32{0, 4, -1, 1}, 4)))
	}},
	{"Reshape of labels", func(g *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		labels := must(op.Apply(&op.Reshape{From: tensor.Shape{2, 2}, To: tensor.Shape{4}}, ints(g, "labels", []int32{0, 2, -1, 1}, 2, 2)))
		return must(op.Apply(&op.SoftmaxCrossEntropy{}, leaf("x", 4, 3), labels))
	}},
	{"Add", func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		x := leaf("x", 2, 3)
		return must(op.Apply(&op.Add{}, x, must(op.Apply(&op.Add{}, x, leaf("y", 2, 3)))))
	}},
	{"SoftmaxCrossEntropy", func(g *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.SoftmaxCrossEntropy{}, leaf("x", 4, 3), ints(g, "labels", []int32{0, 2, 2, 1}, 4)))
	}},
	{"SoftmaxCrossEntropy with smoothing", func(g *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.SoftmaxCrossEntropy{Smoothing: 0.2}, leaf("x", 4, 3), ints(g, "labels", []int32{0, 2, -1, 1}, 4)))
	}},
	{"SoftmaxCrossEntropy with weights of classes", func(g *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.SoftmaxCrossEntropy{Weights: []float32{0.5, 3, 0}}, leaf("x", 4, 3), ints(g, "labels", []int32{0, 2, -1, 1}, 4)))
	}},
	{"SoftmaxCrossEntropy with weights and smoothing", func(g *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.SoftmaxCrossEntropy{Smoothing: 0.2, Weights: []float32{0.5, 3, 1.25}}, leaf("x", 4, 3), ints(g, "labels", []int32{0, 2, -1, 1}, 4)))
	}},
	{"SoftCrossEntropy", func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		x := leaf("x", 4, 3)
		return must(op.Apply(&op.SoftCrossEntropy{}, x, targets(x, 0.2, 0.3, 0.5, 0, 0, 0, 1, 0, 0, 0.7, 0, 0.8)))
	}},
	{"BinaryCrossEntropy", func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		x := leaf("x", 4, 3)
		return must(op.Apply(&op.BinaryCrossEntropy{}, x, targets(x, 1, 0, 0.5, -1, -1, -1, 1, -1, 0, 0, 0, 0)))
	}},
	{"BinaryCrossEntropy with weights", func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		x := leaf("x", 4, 3)
		return must(op.Apply(&op.BinaryCrossEntropy{PosWeights: []float32{0.5, 3, 0}}, x, targets(x, 1, 0, 0.5, -1, -1, -1, 1, 1, 1, 0, 0.25, 0)))
	}},
	{"SoftmaxCrossEntropy of a partial batch", func(g *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.SoftmaxCrossEntropy{}, leaf("x", 4, 3), ints(g, "labels", []int32{0, 2, -1, -1}, 4)))
	}},
	{"MSE", func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.MSE{Dims: 2}, leaf("x", 4, 3), leaf("target", 4, 3)))
	}},
	{"LSTM", recurrentOf(op.RecurrentForm{})},
	{"LSTM, reverse, first states and lengths", recurrentOf(op.RecurrentForm{Reverse: true, H0: true, C0: true, Lengths: true})},
	{"GRU, first state", recurrentOf(op.RecurrentForm{GRU: true, H0: true})},
	{"GRU, reverse, bias and lengths", recurrentOf(op.RecurrentForm{GRU: true, Reverse: true, Bias: true, Lengths: true})},
	{"Attention, causal, grouped queries", attentionOf(op.AttentionForm{Heads: 4, KVHeads: 2, Causal: true}, 5, 5)},
	{"Attention, causal, more keys than queries, alibi", attentionOf(op.AttentionForm{Heads: 2, KVHeads: 1, Causal: true, ALiBi: true}, 3, 6)},
	{"Attention, lengths and bias of all heads", attentionOf(op.AttentionForm{Heads: 2, KVHeads: 2, Lengths: true, Bias: true}, 4, 5, 1, 1)},
	{"Attention, causal, lengths, documents, bias", attentionOf(op.AttentionForm{Heads: 2, KVHeads: 2, Causal: true, Lengths: true, Documents: true, Bias: true}, 5, 5, 2, 2)},
	{"Attention, packed, documents", attentionOf(op.AttentionForm{Heads: 2, KVHeads: 1, Packed: true, Causal: true, Documents: true}, 5, 5)},
	{"Attention with dropout", func(g *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		o := &op.Attention{AttentionForm: op.AttentionForm{Heads: 2, KVHeads: 2, Packed: true, Causal: true, Scale: 0.7}, Rate: 0.3, Seed: 3, Name: "attention", Mode: op.RegistryOf(g).Mode}
		return first(must(op.Apply(o, leaf("qkv", 2, 6, 18))))
	}},
	{"Rotary, halves", unary(&op.Rotary{Rotation: op.Rotation{Base: 100, Size: 4, First: 3}, Turned: 2}, 2, 3, 2, 6)},
	{"Rotary, interleaved, some heads, scaled", unary(&op.Rotary{Rotation: op.Rotation{Base: 100, Size: 6, Interleaved: true, Factor: 8, Low: 1, High: 4, Original: 64}, Turned: 2}, 2, 3, 3, 6)},
	{"Rotary from given positions", func(g *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&op.Rotary{Rotation: op.Rotation{Base: 100, Size: 4}, Turned: 1, Firsts: true}, leaf("x", 2, 3, 2, 4), ints(g, "first", []int32{5, 0}, 2)))
	}},
	{"conv, batch norm, residual, pool, linear", network},
}

// first is result 0 of a node.
func first(n *gorgonia.Node) *gorgonia.Node {
	return must(op.Apply(&op.Take{Shape: n.Shape(), From: n.Shape().Dims()}, n))
}

// attentionOf is an attention of two examples, t queries and s keys, whose bias is of some examples
// and heads.
func recurrentOf(form op.RecurrentForm) func(*gorgonia.ExprGraph, func(string, ...int) *gorgonia.Node) *gorgonia.Node {
	return func(g *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		const b, t, h = 3, 4, 2
		gates := form.Gates()
		in := gorgonia.Nodes{leaf("z", b, t, gates*h), leaf("w", gates*h, h)}
		if form.Bias {
			in = append(in, leaf("bias", gates*h))
		}
		if form.H0 {
			in = append(in, leaf("h0", b, h))
		}
		if form.C0 {
			in = append(in, leaf("c0", b, h))
		}
		if form.Lengths {
			// The last example has no step.
			in = append(in, ints(g, "lengths", []int32{2, t, 0}, b))
		}
		return first(must(op.Apply(&op.Recurrent{RecurrentForm: form}, in...)))
	}
}

func attentionOf(form op.AttentionForm, t, s int, bias ...int) func(*gorgonia.ExprGraph, func(string, ...int) *gorgonia.Node) *gorgonia.Node {
	form.Scale = 0.6
	return func(g *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		const d = 3
		var in gorgonia.Nodes
		if form.Packed {
			in = gorgonia.Nodes{leaf("qkv", 2, t, (form.Heads+2*form.KVHeads)*d)}
		} else {
			in = gorgonia.Nodes{leaf("q", 2, t, form.Heads, d), leaf("k", 2, s, form.KVHeads, d), leaf("v", 2, s, form.KVHeads, d)}
		}
		if form.Lengths {
			// The second example has no key.
			in = append(in, ints(g, "lengths", []int32{int32(s - 1), 0}, 2))
		}
		if form.Documents {
			in = append(in, ints(g, "documents", []int32{7, 7, 8, 8, 8, 1, 2, 2, 2, 2}, 2, s))
		}
		if form.Bias {
			in = append(in, leaf("bias", bias[0], bias[1], t, s))
		}
		return first(must(op.Apply(&op.Attention{AttentionForm: form}, in...)))
	}
}

func conv(o op.Conv2D, x, w []int) func(*gorgonia.ExprGraph, func(string, ...int) *gorgonia.Node) *gorgonia.Node {
	return func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&o, leaf("x", x...), leaf("w", w...)))
	}
}

func transposed(o op.ConvTranspose2D, x, w []int) func(*gorgonia.ExprGraph, func(string, ...int) *gorgonia.Node) *gorgonia.Node {
	return func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(&o, leaf("x", x...), leaf("w", w...)))
	}
}

func unary(o gorgonia.Op, shape ...int) func(*gorgonia.ExprGraph, func(string, ...int) *gorgonia.Node) *gorgonia.Node {
	return func(_ *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
		return must(op.Apply(o, leaf("x", shape...)))
	}
}

// network is a residual block between a stem and a classifier.
func network(g *gorgonia.ExprGraph, leaf func(string, ...int) *gorgonia.Node) *gorgonia.Node {
	x := must(op.Apply(&op.Conv2D{Stride: one, Pad: one}, leaf("x", 2, 3, 5, 5), leaf("w1", 4, 3, 3, 3)))
	y := batchNorm(x, leaf("gamma1", 4), leaf("beta1", 4), "bn1")
	y = must(op.Apply(&op.ReLU{}, y))
	y = must(op.Apply(&op.Conv2D{Stride: one, Pad: one}, y, leaf("w2", 4, 4, 3, 3)))
	y = batchNorm(y, leaf("gamma2", 4), leaf("beta2", 4), "bn2")
	y = must(op.Apply(&op.ReLU{}, must(op.Apply(&op.Add{}, y, x))))
	y = must(op.Apply(&op.GlobalAvgPool2D{}, y))
	y = must(op.Apply(&op.Linear{Bias: true}, y, leaf("w3", 3, 4), leaf("b3", 3)))
	return must(op.Apply(&op.SoftmaxCrossEntropy{}, y, ints(g, "labels", []int32{2, 0}, 2)))
}

func TestGradientsAreThoseOfFiniteDifferences(t *testing.T) {
	for _, c := range graphs {
		t.Run(c.name, func(t *testing.T) {
			g := gorgonia.NewGraph()
			y := c.build(g, func(name string, shape ...int) *gorgonia.Node { return leaf(g, name, shape...) })
			checkGradients(t, lossOf(y))
		})
	}
}

func checkGradients(t *testing.T, loss *gorgonia.Node) {
	t.Helper()
	r, err := ref.New(loss)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.CheckGradients(12, 1e-5, 1e-6); err != nil {
		t.Error(err)
	}
}

// The float32 loops must give what the float64 loops give, rounded.
func TestFloat32AgreesWithFloat64(t *testing.T) {
	for _, c := range graphs {
		t.Run(c.name, func(t *testing.T) {
			var results [2]map[string][]float64
			for i, dt := range []tensor.Dtype{tensor.Float64, tensor.Float32} {
				g := gorgonia.NewGraph()
				y := c.build(g, func(name string, shape ...int) *gorgonia.Node { return leafOf(g, dt, name, shape...) })
				r, err := ref.New(lossOf(y))
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				if err := r.Step(); err != nil {
					t.Fatal(err)
				}
				results[i] = map[string][]float64{"loss": {r.Loss()}}
				for _, p := range r.Params() {
					results[i][p] = r.Grad(p)
				}
			}
			for name, want := range results[0] {
				if d := distance(results[1][name], want); d > 1e-4 {
					t.Errorf("%s: float32 gives %v, float64 %v", name, results[1][name], want)
				}
			}
		})
	}
}

// distance is the largest difference over the largest number.
func distance(got, want []float64) float64 {
	if len(got) != len(want) {
		return float64(len(got) + len(want))
	}
	var d, scale float64
	for i := range want {
		d = max(d, abs(got[i]-want[i]))
		scale = max(scale, abs(want[i]))
	}
	return d / (scale + 1e-3)
}

func abs(x float64) float64 { return max(x, -x) }

// gorgonia's ops and ours stand in one graph, in either order, and a node of
// ours that gorgonia's ops may write over keeps its value where it is needed.
func TestGraphsThatMixInGorgoniasOpsDifferentiate(t *testing.T) {
	cases := []struct {
		name  string
		build func(g *gorgonia.ExprGraph) *gorgonia.Node
	}{
		{"Mul, Tanh and Linear", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			h := must(gorgonia.Tanh(must(gorgonia.Mul(leaf(g, "x", 3, 4), leaf(g, "w1", 4, 5)))))
			return must(op.Apply(&op.Linear{Bias: true}, h, leaf(g, "w2", 2, 5), leaf(g, "b", 2)))
		}},
		{"Linear, Sigmoid, Square and Mean over an axis", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			h := must(op.Apply(&op.Linear{}, leaf(g, "x", 3, 4), leaf(g, "w", 5, 4)))
			h = must(gorgonia.Sigmoid(h))
			return must(gorgonia.Mean(must(gorgonia.Square(h)), 1))
		}},
		{"Take under Tanh and Add", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			y := batchNorm(leaf(g, "x", 3, 2, 2, 2), leaf(g, "gamma", 2), leaf(g, "beta", 2), "bn")
			return must(gorgonia.Add(must(gorgonia.Tanh(y)), y))
		}},
		{"Transpose into Linear", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			x := must(gorgonia.Transpose(leaf(g, "x", 4, 3), 1, 0))
			return must(op.Apply(&op.Linear{}, x, leaf(g, "w", 5, 4)))
		}},
		{"Slice into ReLU", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			x := must(gorgonia.Slice(leaf(g, "x", 4, 5), nil, gorgonia.S(1, 3)))
			return must(op.Apply(&op.ReLU{}, x))
		}},
		{"cross-entropy and weight decay", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			w := leaf(g, "w", 3, 4)
			y := must(op.Apply(&op.Linear{}, leaf(g, "x", 2, 4), w))
			loss := must(op.Apply(&op.SoftmaxCrossEntropy{}, y, ints(g, "labels", []int32{2, 0}, 2)))
			decay := must(gorgonia.Mul(must(gorgonia.Sum(must(gorgonia.Square(w)))), gorgonia.NewConstant(0.01)))
			return must(gorgonia.Add(loss, decay))
		}},
		{"one table, two look-ups", func(g *gorgonia.ExprGraph) *gorgonia.Node {
			w := leaf(g, "w", 5, 3)
			a := must(op.Apply(&op.Embedding{IDDims: 1}, w, ints(g, "a", []int32{1, 4}, 2)))
			b := must(op.Apply(&op.Embedding{IDDims: 1}, w, ints(g, "b", []int32{1, 0}, 2)))
			return must(gorgonia.HadamardProd(a, b))
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			checkGradients(t, lossOf(c.build(gorgonia.NewGraph())))
		})
	}
}

func Example() {
	g := gorgonia.NewGraph()
	x := gorgonia.NewMatrix(g, tensor.Float64, gorgonia.WithName("x"), gorgonia.WithShape(1, 2), gorgonia.WithValue(tensor.New(tensor.WithShape(1, 2), tensor.WithBacking([]float64{1, 2}))))
	w := gorgonia.NewMatrix(g, tensor.Float64, gorgonia.WithName("w"), gorgonia.WithShape(1, 2), gorgonia.WithValue(tensor.New(tensor.WithShape(1, 2), tensor.WithBacking([]float64{3, 4}))))
	y, err := op.Apply(&op.Linear{}, x, w)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(y.Op(), y.Shape())
	_, err = op.Apply(&op.Linear{}, x, y)
	fmt.Println(err)
	// Output:
	// Linear{bias false} (1, 1)
	// op: apply Linear{bias false}: Failed to infer shape. Op: Linear{bias false}: op: Linear{bias false}: arguments are [(1, 2) (1, 1)], want (B,In), (Out,In) and (Out)
}
