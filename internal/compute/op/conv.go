package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Conv2D is the cross-correlation that networks call convolution:
//
//	y[n,o,i,j] = Σ_c Σ_r Σ_s x[n, c, i·Stride+r−Pad, j·Stride+s−Pad] · w[o,c,r,s]
//
// with x zero outside. There is no bias; see BiasAdd.
//
// Arguments: x (N,C,H,W), w (O,C,KH,KW). Result: y (N,O,OH,OW) with
// OH = (H+2·Pad−KH)/Stride + 1, rounded down.
// Gradients: dx by Conv2DBackwardData, dw by Conv2DBackwardWeight.
type Conv2D struct {
	traits
	Stride, Pad [2]int // {H, W}
}

func (o *Conv2D) Arity() int            { return 2 }
func (o *Conv2D) Type() hm.Type         { return fn(4, 4, 4) }
func (o *Conv2D) String() string        { return fmt.Sprintf("Conv2D{stride %v pad %v}", o.Stride, o.Pad) }
func (o *Conv2D) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Conv2D) Hashcode() uint32      { return hashcode(o) }
func (o *Conv2D) DiffWRT(int) []bool    { return []bool{true, true} }

func (o *Conv2D) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4, 4)
	if err != nil {
		return nil, err
	}
	x, w := s[0], s[1]
	if x[1] != w[1] {
		return nil, fmt.Errorf("op: %v: x %v has %d channels and w %v takes %d", o, x, x[1], w, w[1])
	}
	hw, err := windowed(o, x, [2]int{w[2], w[3]}, o.Stride, o.Pad)
	if err != nil {
		return nil, err
	}
	return tensor.Shape{x[0], w[0], hw[0], hw[1]}, nil
}

func (o *Conv2D) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, conv2D[float32], conv2D[float64])
}

func conv2D[T float](o *Conv2D, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	x, w := numbers[T](in[0]), numbers[T](in[1])
	eachTap(in[0].Shape(), in[1].Shape(), shape, o.Stride, o.Pad, func(xi, wi, yi int) { y[yi] += x[xi] * w[wi] })
	return out, nil
}

func (o *Conv2D) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := Apply(&Conv2DBackwardData{Stride: o.Stride, Pad: o.Pad, XShape: in[0].Shape()}, in[1], grad)
	if err != nil {
		return nil, err
	}
	dw, err := Apply(&Conv2DBackwardWeight{Stride: o.Stride, Pad: o.Pad, WShape: in[1].Shape()}, in[0], grad)
	if err != nil {
		return nil, err
	}
	return gorgonia.Nodes{dx, dw}, nil
}

// Conv2DBackwardData is dx of a Conv2D with the same Stride and Pad: every
// product x·w of the forward sum gives dy·w to its x.
//
// Arguments: w (O,C,KH,KW), dy (N,O,OH,OW). Result: dx of shape XShape (N,C,H,W).
type Conv2DBackwardData struct {
	gradient
	Stride, Pad [2]int
	XShape      tensor.Shape
}

func (o *Conv2DBackwardData) Arity() int    { return 2 }
func (o *Conv2DBackwardData) Type() hm.Type { return fn(4, 4, 4) }
func (o *Conv2DBackwardData) String() string {
	return fmt.Sprintf("Conv2DBackwardData{stride %v pad %v x %v}", o.Stride, o.Pad, o.XShape)
}
func (o *Conv2DBackwardData) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Conv2DBackwardData) Hashcode() uint32      { return hashcode(o) }

func (o *Conv2DBackwardData) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4, 4)
	if err != nil {
		return nil, err
	}
	if err := checkConvGrad(o, o.Stride, o.Pad, o.XShape, s[0], s[1]); err != nil {
		return nil, err
	}
	return o.XShape.Clone(), nil
}

func (o *Conv2DBackwardData) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, conv2DBackwardData[float32], conv2DBackwardData[float64])
}

func conv2DBackwardData[T float](o *Conv2DBackwardData, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, dx := dense[T](shape)
	w, dy := numbers[T](in[0]), numbers[T](in[1])
	eachTap(shape, in[0].Shape(), in[1].Shape(), o.Stride, o.Pad, func(xi, wi, yi int) { dx[xi] += dy[yi] * w[wi] })
	return out, nil
}

// Conv2DBackwardWeight is dw of a Conv2D with the same Stride and Pad: every
// product x·w of the forward sum gives dy·x to its w.
//
// Arguments: x (N,C,H,W), dy (N,O,OH,OW). Result: dw of shape WShape (O,C,KH,KW).
type Conv2DBackwardWeight struct {
	gradient
	Stride, Pad [2]int
	WShape      tensor.Shape
}

func (o *Conv2DBackwardWeight) Arity() int    { return 2 }
func (o *Conv2DBackwardWeight) Type() hm.Type { return fn(4, 4, 4) }
func (o *Conv2DBackwardWeight) String() string {
	return fmt.Sprintf("Conv2DBackwardWeight{stride %v pad %v w %v}", o.Stride, o.Pad, o.WShape)
}
func (o *Conv2DBackwardWeight) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Conv2DBackwardWeight) Hashcode() uint32      { return hashcode(o) }

func (o *Conv2DBackwardWeight) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4, 4)
	if err != nil {
		return nil, err
	}
	if err := checkConvGrad(o, o.Stride, o.Pad, s[0], o.WShape, s[1]); err != nil {
		return nil, err
	}
	return o.WShape.Clone(), nil
}

func (o *Conv2DBackwardWeight) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, conv2DBackwardWeight[float32], conv2DBackwardWeight[float64])
}

func conv2DBackwardWeight[T float](o *Conv2DBackwardWeight, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, dw := dense[T](shape)
	x, dy := numbers[T](in[0]), numbers[T](in[1])
	eachTap(in[0].Shape(), shape, in[1].Shape(), o.Stride, o.Pad, func(xi, wi, yi int) { dw[wi] += dy[yi] * x[xi] })
	return out, nil
}

func checkConvGrad(o gorgonia.Op, stride, pad [2]int, x, w, dy tensor.Shape) error {
	y, err := (&Conv2D{Stride: stride, Pad: pad}).InferShape(x, w)
	if err != nil {
		return err
	}
	if !y.Eq(dy) {
		return fmt.Errorf("op: %v: dy is %v, want %v", o, dy, y)
	}
	return nil
}

// windowed gives the height and width of a convolution's or a pool's result.
func windowed(o gorgonia.Op, x tensor.Shape, kernel, stride, pad [2]int) (hw [2]int, err error) {
	for d := range hw {
		if stride[d] < 1 || pad[d] < 0 || kernel[d] < 1 {
			return hw, fmt.Errorf("op: %v: kernel %v stride %v pad %v, want kernel and stride of at least 1 and pad of at least 0", o, kernel, stride, pad)
		}
		room := x[2+d] + 2*pad[d] - kernel[d]
		if room < 0 {
			return hw, fmt.Errorf("op: %v: kernel %v does not fit into x %v with pad %v", o, kernel, x, pad)
		}
		hw[d] = room/stride[d] + 1
	}
	return hw, nil
}

// eachTap calls f with the positions of every product in a convolution, ordered so that each sum
// over taps runs over channel, row, column.
func eachTap(x, w, y tensor.Shape, stride, pad [2]int, f func(xi, wi, yi int)) {
	t := taps{x, w, stride, pad}
	yi := 0
	for n := range y[0] {
		for o := range y[1] {
			for i := range y[2] {
				for j := range y[3] {
					t.each(n, o, [2]int{i, j}, yi, f)
					yi++
				}
			}
		}
	}
}

// taps are the products that one value of a convolution's result sums.
type taps struct {
	x, w        tensor.Shape
	stride, pad [2]int
}

// each calls f with the positions of the products of image n, output channel o and pixel at, which
// is at yi in the result.
func (t *taps) each(n, o int, at [2]int, yi int, f func(xi, wi, yi int)) {
	x, w := t.x, t.w
	for c := range x[1] {
		for r := range w[2] {
			h := at[0]*t.stride[0] + r - t.pad[0]
			if h < 0 || h >= x[2] {
				continue
			}
			for s := range w[3] {
				v := at[1]*t.stride[1] + s - t.pad[1]
				if v >= 0 && v < x[3] {
					f(((n*x[1]+c)*x[2]+h)*x[3]+v, ((o*x[1]+c)*w[2]+r)*w[3]+s, yi)
				}
			}
		}
	}
}
