package nn

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// LinearConfig describes a fully connected layer.
type LinearConfig struct {
	// Out is the width of the result.
	Out int
	// NoBias leaves the bias out, which starts at zero.
	NoBias bool
	// Init is that of the weight; nil is XavierUniform(1).
	Init Init

	// biasInit is that of the bias; nil is Zeros.
	biasInit Init
	// underscore makes the parameters' names name_weight and name_bias, as those of PyTorch's
	// MultiheadAttention.
	underscore bool
}

// Linear is y = x·Wᵀ + b, from x (...,In), of two axes or more, to (...,Out).
// Parameters: name.weight (Out,In) and name.bias (Out).
func Linear(x *gorgonia.Node, name string, cfg LinearConfig) *gorgonia.Node {
	layer := fmt.Sprintf("Linear %q", name)
	if s := x.Shape(); s.Dims() > 2 {
		in := s[s.Dims()-1]
		y := Linear(Reshape(x, s.TotalSize()/in, in), name, cfg)
		to := s.Clone()
		to[s.Dims()-1] = cfg.Out
		return Reshape(y, to...)
	}
	want(layer, x, 2, "...,In")
	if cfg.Out < 1 {
		panic(fmt.Sprintf("nn: %s: Out is %d, want at least 1", layer, cfg.Out))
	}
	if cfg.Init == nil {
		cfg.Init = XavierUniform(1)
	}
	w := newParameter(x, cfg.weight(name), cfg.Init, cfg.Out, x.Shape()[1])
	if cfg.NoBias {
		return apply(layer, &op.Linear{}, x, w)
	}
	if cfg.biasInit == nil {
		cfg.biasInit = Zeros()
	}
	return apply(layer, &op.Linear{Bias: true}, x, w, newParameter(x, cfg.bias(name), cfg.biasInit, cfg.Out))
}

func (cfg *LinearConfig) weight(name string) string { return name + cfg.joint() + "weight" }
func (cfg *LinearConfig) bias(name string) string   { return name + cfg.joint() + "bias" }

func (cfg *LinearConfig) joint() string {
	if cfg.underscore {
		return "_"
	}
	return "."
}

// EmbeddingConfig describes a table of rows.
type EmbeddingConfig struct {
	Rows, Dim int
	// Init is that of the weight; nil is Normal(1/√Dim).
	Init Init
}

// Embedding looks up a row of Dim numbers for each of ids (any shape), giving
// (ids' shape..., Dim). Parameter: name.weight (Rows,Dim).
func Embedding(ids *gorgonia.Node, name string, cfg EmbeddingConfig) *gorgonia.Node {
	layer := fmt.Sprintf("Embedding %q", name)
	if cfg.Rows < 1 || cfg.Dim < 1 {
		panic(fmt.Sprintf("nn: %s: table is %d×%d, want at least 1×1", layer, cfg.Rows, cfg.Dim))
	}
	if cfg.Init == nil {
		cfg.Init = Normal(1 / math.Sqrt(float64(cfg.Dim)))
	}
	w := newParameter(ids, name+".weight", cfg.Init, cfg.Rows, cfg.Dim)
	return apply(layer, &op.Embedding{IDDims: ids.Shape().Dims()}, w, ids)
}

// ReLU is max(x, 0).
func ReLU(x *gorgonia.Node) *gorgonia.Node { return apply("ReLU", &op.ReLU{}, x) }

// Flatten keeps the first dimension and joins the others: (N,C,H,W) becomes
// (N, C·H·W). A node with two dimensions stays as it is.
func Flatten(x *gorgonia.Node) *gorgonia.Node {
	s := x.Shape()
	switch {
	case s.Dims() == 2:
		return x
	case s.Dims() < 2:
		panic(fmt.Sprintf("nn: Flatten: x is %v, want at least 2 dimensions", s))
	}
	return apply("Flatten", &op.Reshape{From: s, To: tensor.Shape{s[0], s[1:].TotalSize()}}, x)
}
