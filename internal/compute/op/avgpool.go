package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// AvgPool2D is the mean of each window, windows as in MaxPool2D. The sum is
// divided by the kernel's size, padding counted as zeros (count_include_pad, the
// default of PyTorch and MXNet), or, with ExcludePad, by the number of positions
// that are not padding.
//
// Arguments: x (N,C,H,W). Result: y (N,C,OH,OW). Gradient: by AvgPool2DGrad.
type AvgPool2D struct {
	traits
	Kernel, Stride, Pad [2]int // {H, W}
	ExcludePad          bool
}

func (o *AvgPool2D) Arity() int    { return 1 }
func (o *AvgPool2D) Type() hm.Type { return fn(4, 4) }
func (o *AvgPool2D) String() string {
	return fmt.Sprintf("AvgPool2D{kernel %v stride %v pad %v exclude pad %t}", o.Kernel, o.Stride, o.Pad, o.ExcludePad)
}
func (o *AvgPool2D) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *AvgPool2D) Hashcode() uint32      { return hashcode(o) }
func (o *AvgPool2D) DiffWRT(int) []bool    { return []bool{true} }

func (o *AvgPool2D) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4)
	if err != nil {
		return nil, err
	}
	return pooled(o, s[0], o.Kernel, o.Stride, o.Pad)
}

func (o *AvgPool2D) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, avgPool2D[float32], avgPool2D[float64])
}

func avgPool2D[T float](o *AvgPool2D, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	x := numbers[T](in[0])
	eachWindow(in[0].Shape(), shape, o.Kernel, o.Stride, o.Pad, func(yi int, window []int) {
		for _, xi := range window {
			y[yi] += x[xi]
		}
		y[yi] /= T(divisor(o.Kernel, o.ExcludePad, window))
	})
	return out, nil
}

func divisor(kernel [2]int, excludePad bool, window []int) int {
	if excludePad {
		return len(window)
	}
	return kernel[0] * kernel[1]
}

func (o *AvgPool2D) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := Apply(&AvgPool2DGrad{Kernel: o.Kernel, Stride: o.Stride, Pad: o.Pad, ExcludePad: o.ExcludePad, XShape: in[0].Shape()}, grad)
	return gorgonia.Nodes{dx}, err
}

// AvgPool2DGrad spreads each dy evenly over its window, divided as AvgPool2D does.
//
// Arguments: dy (N,C,OH,OW). Result: dx of shape XShape (N,C,H,W).
type AvgPool2DGrad struct {
	gradient
	Kernel, Stride, Pad [2]int
	ExcludePad          bool
	XShape              tensor.Shape
}

func (o *AvgPool2DGrad) Arity() int    { return 1 }
func (o *AvgPool2DGrad) Type() hm.Type { return fn(4, 4) }
func (o *AvgPool2DGrad) String() string {
	return fmt.Sprintf("AvgPool2DGrad{kernel %v stride %v pad %v exclude pad %t x %v}", o.Kernel, o.Stride, o.Pad, o.ExcludePad, o.XShape)
}
func (o *AvgPool2DGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *AvgPool2DGrad) Hashcode() uint32      { return hashcode(o) }

func (o *AvgPool2DGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4)
	if err != nil {
		return nil, err
	}
	y, err := pooled(o, o.XShape, o.Kernel, o.Stride, o.Pad)
	if err != nil {
		return nil, err
	}
	if !y.Eq(s[0]) {
		return nil, fmt.Errorf("op: %v: dy is %v, want %v", o, s[0], y)
	}
	return o.XShape.Clone(), nil
}

func (o *AvgPool2DGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, avgPool2DGrad[float32], avgPool2DGrad[float64])
}

func avgPool2DGrad[T float](o *AvgPool2DGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, dx := dense[T](shape)
	dy := numbers[T](in[0])
	eachWindow(shape, in[0].Shape(), o.Kernel, o.Stride, o.Pad, func(yi int, window []int) {
		for _, xi := range window {
			dx[xi] += dy[yi] / T(divisor(o.Kernel, o.ExcludePad, window))
		}
	})
	return out, nil
}

// GlobalAvgPool2D is the mean of each channel's plane: y[n,c] = Σ_h Σ_w x/(H·W).
//
// Arguments: x (N,C,H,W). Result: y (N,C), without the two dimensions of size 1
// that other libraries keep. Gradient: by GlobalAvgPool2DGrad.
type GlobalAvgPool2D struct{ traits }

func (o *GlobalAvgPool2D) Arity() int            { return 1 }
func (o *GlobalAvgPool2D) Type() hm.Type         { return fn(4, 2) }
func (o *GlobalAvgPool2D) String() string        { return "GlobalAvgPool2D{}" }
func (o *GlobalAvgPool2D) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *GlobalAvgPool2D) Hashcode() uint32      { return hashcode(o) }
func (o *GlobalAvgPool2D) DiffWRT(int) []bool    { return []bool{true} }

func (o *GlobalAvgPool2D) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4)
	if err != nil {
		return nil, err
	}
	return s[0][:2].Clone(), nil
}

func (o *GlobalAvgPool2D) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, globalAvgPool2D[float32], globalAvgPool2D[float64])
}

func globalAvgPool2D[T float](_ *GlobalAvgPool2D, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	hw := in[0].Shape()[2:].TotalSize()
	for i, v := range numbers[T](in[0]) {
		y[i/hw] += v / T(hw)
	}
	return out, nil
}

func (o *GlobalAvgPool2D) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	s := in[0].Shape()
	dx, err := Apply(&GlobalAvgPool2DGrad{Height: s[2], Width: s[3]}, grad)
	return gorgonia.Nodes{dx}, err
}

// GlobalAvgPool2DGrad is dx[n,c,h,w] = dy[n,c]/(Height·Width).
//
// Arguments: dy (N,C). Result: dx (N,C,Height,Width).
type GlobalAvgPool2DGrad struct {
	gradient
	Height, Width int
}

func (o *GlobalAvgPool2DGrad) Arity() int    { return 1 }
func (o *GlobalAvgPool2DGrad) Type() hm.Type { return fn(2, 4) }
func (o *GlobalAvgPool2DGrad) String() string {
	return fmt.Sprintf("GlobalAvgPool2DGrad{%d×%d}", o.Height, o.Width)
}
func (o *GlobalAvgPool2DGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *GlobalAvgPool2DGrad) Hashcode() uint32      { return hashcode(o) }

func (o *GlobalAvgPool2DGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 2)
	if err != nil {
		return nil, err
	}
	return tensor.Shape{s[0][0], s[0][1], o.Height, o.Width}, nil
}

func (o *GlobalAvgPool2DGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, globalAvgPool2DGrad[float32], globalAvgPool2DGrad[float64])
}

func globalAvgPool2DGrad[T float](o *GlobalAvgPool2DGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, dx := dense[T](shape)
	dy, hw := numbers[T](in[0]), o.Height*o.Width
	for i := range dx {
		dx[i] = dy[i/hw] / T(hw)
	}
	return out, nil
}
