package nn

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// RecurrentConfig describes an LSTM or a GRU of one or more layers.
type RecurrentConfig struct {
	// Hidden is the width of the state, H.
	Hidden int
	// Layers is the number of layers, each of which reads what the one before gives; 0: 1.
	Layers int
	// Bidirectional runs each layer over the steps in both directions, with weights of their own.
	Bidirectional bool
	// NoBias leaves the biases out.
	NoBias bool
	// Dropout is the rate of dropout between layers, in training; 0: none.
	Dropout float64
	// Lengths (B), integers such as IDs, are how many steps each example has, from 0 to T; nil: all
	// have T. Results are 0 from an example's length on, its last states are those behind its last
	// step, and the other direction begins at that. In PyTorch such are packed sequences.
	Lengths *gorgonia.Node
	// H0 (layers·directions,B,H) are the states before the first step, and C0 those of an LSTM's
	// cells; nil: 0.
	H0, C0 *gorgonia.Node
}

// LSTM is a long short-term memory over x (B,T,I), as PyTorch's with batch_first. y
// (B,T,directions·H) has the last layer's state after each step, the directions side by side. h
// and c (layers·directions,B,H) are the states and cells behind the last step, for each layer the one
// direction and then the other. The formulas are those of PyTorch, with gates in the order i, f, g, o.
//
// Parameters, for layer k: name.weight_ih_lk (4·H,I), where I is directions·H from layer 1 on,
// name.weight_hh_lk (4·H,H), name.bias_ih_lk and name.bias_hh_lk (4·H); for the other direction with
// _reverse at the end. All start uniform within ±1/√H. A GPU cannot take this layer.
func LSTM(x *gorgonia.Node, name string, cfg RecurrentConfig) (y, h, c *gorgonia.Node) {
	r := newRecurrent(fmt.Sprintf("LSTM %q", name), x, name, cfg, false)
	y, last := r.run(x)
	return y, r.stack(last, 0), r.stack(last, 1)
}

// GRU is a gated recurrent unit over x (B,T,I), as PyTorch's with batch_first. Results, parameters
// and their initial values are those of LSTM, but that there is no c, and three gates in the order r,
// z, n. A GPU cannot take this layer.
func GRU(x *gorgonia.Node, name string, cfg RecurrentConfig) (y, h *gorgonia.Node) {
	r := newRecurrent(fmt.Sprintf("GRU %q", name), x, name, cfg, true)
	y, last := r.run(x)
	return y, r.stack(last, 0)
}

// A recurrent builds the layers of an LSTM or a GRU.
type recurrent struct {
	RecurrentConfig
	layer, name       string
	form              op.RecurrentForm
	batch, directions int
}

func newRecurrent(layer string, x *gorgonia.Node, name string, cfg RecurrentConfig, gru bool) *recurrent {
	want(layer, x, 3, "B,T,I")
	if cfg.Layers == 0 {
		cfg.Layers = 1
	}
	r := &recurrent{RecurrentConfig: cfg, layer: layer, name: name, batch: x.Shape()[0], directions: 1}
	if cfg.Bidirectional {
		r.directions = 2
	}
	r.form = op.RecurrentForm{GRU: gru, Bias: gru && !cfg.NoBias, H0: cfg.H0 != nil, C0: cfg.C0 != nil, Lengths: cfg.Lengths != nil}
	switch {
	case cfg.Hidden < 1 || cfg.Layers < 1:
		panic(fmt.Sprintf("nn: %s: Hidden is %d and Layers %d, want at least 1", layer, cfg.Hidden, cfg.Layers))
	case gru && cfg.C0 != nil:
		panic(fmt.Sprintf("nn: %s: got C0, want none: a GRU has no cells", layer))
	}
	states := tensor.Shape{cfg.Layers * r.directions, r.batch, cfg.Hidden}
	for _, n := range []*gorgonia.Node{cfg.H0, cfg.C0} {
		if n != nil && !n.Shape().Eq(states) {
			panic(fmt.Sprintf("nn: %s: first states are %v, want (layers·directions,B,Hidden) = %v", layer, n.Shape(), states))
		}
	}
	if cfg.Lengths != nil && !cfg.Lengths.Shape().Eq(tensor.Shape{r.batch}) {
		panic(fmt.Sprintf("nn: %s: Lengths are %v, want (%d), one for each example", layer, cfg.Lengths.Shape(), r.batch))
	}
	return r
}

// lastStates are what a layer and direction has behind its last step: h and, of an LSTM, c, (B,1,H)
// each.
type lastStates []*gorgonia.Node

// run gives the last layer's y, and the last states of each layer and direction.
func (r *recurrent) run(x *gorgonia.Node) (y *gorgonia.Node, last []lastStates) {
	y = x
	for k := range r.Layers {
		if k > 0 && r.Dropout > 0 {
			y = Dropout(y, fmt.Sprintf("%s.dropout_l%d", r.name, k-1), r.Dropout)
		}
		var sides []*gorgonia.Node
		for d := range r.directions {
			side, states := r.direction(y, k, d)
			sides, last = append(sides, side), append(last, states)
		}
		y = Concat(-1, sides...)
	}
	return y, last
}

// direction is direction d of layer k.
func (r *recurrent) direction(x *gorgonia.Node, k, d int) (*gorgonia.Node, lastStates) {
	s := x.Shape()
	t, in, hidden := s[1], s[2], r.Hidden
	form := r.form
	form.Reverse = d == 1
	rows := form.Gates() * hidden
	parameter := func(what string, shape ...int) *gorgonia.Node {
		name := fmt.Sprintf("%s.%s_l%d", r.name, what, k)
		if form.Reverse {
			name += "_reverse"
		}
		return newParameter(x, name, Uniform(1/math.Sqrt(float64(hidden))), shape...)
	}
	input := gorgonia.Nodes{Reshape(x, r.batch*t, in), parameter("weight_ih", rows, in)}
	args := gorgonia.Nodes{nil, parameter("weight_hh", rows, hidden)}
	if !r.NoBias {
		b, more := parameter("bias_ih", rows), parameter("bias_hh", rows)
		if form.GRU {
			args = append(args, more)
		} else {
			// Both are added to the same sums.
			b = Add(b, more)
		}
		input = append(input, b)
	}
	args[0] = Reshape(apply(r.layer, &op.Linear{Bias: !r.NoBias}, input...), r.batch, t, rows)
	for _, n := range []*gorgonia.Node{r.H0, r.C0} {
		if n != nil {
			at := k*r.directions + d
			args = append(args, Reshape(Slice(n, 0, at, at+1), r.batch, hidden))
		}
	}
	if form.Lengths {
		args = append(args, r.Lengths)
	}
	all := apply(r.layer, &op.Recurrent{RecurrentForm: form}, args...)
	all = apply(r.layer, &op.Take{Shape: all.Shape().Clone(), From: 3}, all)
	var last lastStates
	for i := range form.States() {
		last = append(last, Slice(all, 1, t+i, t+i+1))
	}
	return Slice(all, 1, 0, t), last
}

// stack puts states of one kind, 0 for h and 1 for c, one behind the other.
func (r *recurrent) stack(last []lastStates, kind int) *gorgonia.Node {
	var states []*gorgonia.Node
	for _, s := range last {
		states = append(states, Reshape(s[kind], 1, r.batch, r.Hidden))
	}
	return Concat(0, states...)
}
