package op

import (
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// SwiGLU is z = silu(gate)·up, element by element, silu(x) = x·σ(x): what Llama's feed-forward
// blocks have in the place of an activation (Shazeer 2020).
//
// Arguments: gate and up of one shape. Result: z like them. Gradients: by SwiGLUGrad.
type SwiGLU struct{ traits }

func (o *SwiGLU) Arity() int            { return 2 }
func (o *SwiGLU) Type() hm.Type         { return same(2) }
func (o *SwiGLU) String() string        { return "SwiGLU{}" }
func (o *SwiGLU) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *SwiGLU) Hashcode() uint32      { return hashcode(o) }
func (o *SwiGLU) DiffWRT(int) []bool    { return []bool{true, true} }

func (o *SwiGLU) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	return likeAll(o, ds, 2)
}

func (o *SwiGLU) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, swiglu[float32], swiglu[float64])
}

func swiglu[T float](_ *SwiGLU, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, z := dense[T](shape)
	up := numbers[T](in[1])
	for i, gate := range numbers[T](in[0]) {
		z[i] = T(SiLU.at(float64(gate), 0) * float64(up[i]))
	}
	return out, nil
}

func (o *SwiGLU) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	d, err := Apply(&SwiGLUGrad{}, in[0], in[1], grad)
	if err != nil {
		return nil, err
	}
	return takeEach(d, in)
}

// SwiGLUGrad is dgate = dz·up·silu′(gate), dup = dz·silu(gate).
//
// Arguments: gate, up, dz of one shape. Result: Tuple{dgate, dup} like them.
type SwiGLUGrad struct{ gradient }

func (o *SwiGLUGrad) Arity() int            { return 3 }
func (o *SwiGLUGrad) Type() hm.Type         { return same(3) }
func (o *SwiGLUGrad) String() string        { return "SwiGLUGrad{}" }
func (o *SwiGLUGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *SwiGLUGrad) Hashcode() uint32      { return hashcode(o) }

func (o *SwiGLUGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	return likeAll(o, ds, 3)
}

func (o *SwiGLUGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, swigluGrad[float32], swigluGrad[float64])
}

func swigluGrad[T float](_ *SwiGLUGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	gt, dgate := dense[T](shape)
	ut, dup := dense[T](shape)
	up, dz := numbers[T](in[1]), numbers[T](in[2])
	for i, gate := range numbers[T](in[0]) {
		dgate[i] = T(float64(dz[i]) * float64(up[i]) * SiLU.derivative(float64(gate), 0))
		dup[i] = T(float64(dz[i]) * SiLU.at(float64(gate), 0))
	}
	return &Tuple{Values: []*tensor.Dense{gt, ut}}, nil
}
