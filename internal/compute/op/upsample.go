package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Upsample2D makes each number a square of Scale by Scale equal ones, as interpolation by the
// nearest neighbour does:
//
//	y[n,c,i,j] = x[n, c, ⌊i/Scale⌋, ⌊j/Scale⌋]
//
// Arguments: x (N,C,H,W). Result: y (N,C,H·Scale,W·Scale). Gradient: by Upsample2DGrad.
type Upsample2D struct {
	traits
	Scale int // at least 1
}

func (o *Upsample2D) Arity() int            { return 1 }
func (o *Upsample2D) Type() hm.Type         { return fn(4, 4) }
func (o *Upsample2D) String() string        { return fmt.Sprintf("Upsample2D{%d}", o.Scale) }
func (o *Upsample2D) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Upsample2D) Hashcode() uint32      { return hashcode(o) }
func (o *Upsample2D) DiffWRT(int) []bool    { return []bool{true} }

func (o *Upsample2D) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4)
	if err != nil {
		return nil, err
	}
	if o.Scale < 1 {
		return nil, fmt.Errorf("op: %v: scale is %d, want at least 1", o, o.Scale)
	}
	return tensor.Shape{s[0][0], s[0][1], s[0][2] * o.Scale, s[0][3] * o.Scale}, nil
}

func (o *Upsample2D) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, upsample2D[float32], upsample2D[float64])
}

func upsample2D[T float](o *Upsample2D, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	x := numbers[T](in[0])
	eachUpsampled(in[0].Shape(), o.Scale, func(xi, yi int) { y[yi] = x[xi] })
	return out, nil
}

// eachUpsampled calls f with each position of y, in row-major order, and the position in x that it
// comes from.
func eachUpsampled(x tensor.Shape, scale int, f func(xi, yi int)) {
	h, w := x[2]*scale, x[3]*scale
	for yi := range x[0] * x[1] * h * w {
		nc, i, j := yi/(h*w), yi/w%h, yi%w
		f((nc*x[2]+i/scale)*x[3]+j/scale, yi)
	}
}

func (o *Upsample2D) SymDiff(_ gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := Apply(&Upsample2DGrad{Scale: o.Scale}, grad)
	return gorgonia.Nodes{dx}, err
}

// Upsample2DGrad is the sum of each square of Scale by Scale.
//
// Arguments: dy (N,C,H·Scale,W·Scale). Result: dx (N,C,H,W).
type Upsample2DGrad struct {
	gradient
	Scale int
}

func (o *Upsample2DGrad) Arity() int            { return 1 }
func (o *Upsample2DGrad) Type() hm.Type         { return fn(4, 4) }
func (o *Upsample2DGrad) String() string        { return fmt.Sprintf("Upsample2DGrad{%d}", o.Scale) }
func (o *Upsample2DGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Upsample2DGrad) Hashcode() uint32      { return hashcode(o) }

func (o *Upsample2DGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4)
	if err != nil {
		return nil, err
	}
	if o.Scale < 1 || s[0][2]%o.Scale != 0 || s[0][3]%o.Scale != 0 {
		return nil, fmt.Errorf("op: %v: dy is %v, want height and width in multiples of %d", o, s[0], o.Scale)
	}
	return tensor.Shape{s[0][0], s[0][1], s[0][2] / o.Scale, s[0][3] / o.Scale}, nil
}

func (o *Upsample2DGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, upsample2DGrad[float32], upsample2DGrad[float64])
}

func upsample2DGrad[T float](o *Upsample2DGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, dx := dense[T](shape)
	dy := numbers[T](in[0])
	eachUpsampled(shape, o.Scale, func(xi, yi int) { dx[xi] += dy[yi] })
	return out, nil
}
