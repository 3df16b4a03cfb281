package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// MaxPool2D is the largest number in each window: with (h, v) in the window of
// (i, j) when i·Stride−Pad ≤ h < i·Stride−Pad+Kernel, and the same for columns,
//
//	y[n,c,i,j] = max x[n,c,h,v]
//
// Positions in the padding are never chosen; Pad is at most half of Kernel, so
// no window lies in the padding alone. A NaN in a window is its maximum.
//
// Arguments: x (N,C,H,W). Result: y (N,C,OH,OW), sizes as in Conv2D.
// Gradient: by MaxPool2DGrad, to the first of equal numbers in row-major order.
type MaxPool2D struct {
	traits
	Kernel, Stride, Pad [2]int // {H, W}
}

func (o *MaxPool2D) Arity() int    { return 1 }
func (o *MaxPool2D) Type() hm.Type { return fn(4, 4) }
func (o *MaxPool2D) String() string {
	return fmt.Sprintf("MaxPool2D{kernel %v stride %v pad %v}", o.Kernel, o.Stride, o.Pad)
}
func (o *MaxPool2D) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *MaxPool2D) Hashcode() uint32      { return hashcode(o) }
func (o *MaxPool2D) DiffWRT(int) []bool    { return []bool{true} }

func (o *MaxPool2D) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4)
	if err != nil {
		return nil, err
	}
	return pooled(o, s[0], o.Kernel, o.Stride, o.Pad)
}

func (o *MaxPool2D) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, maxPool2D[float32], maxPool2D[float64])
}

func maxPool2D[T float](o *MaxPool2D, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	x := numbers[T](in[0])
	eachWindow(in[0].Shape(), shape, o.Kernel, o.Stride, o.Pad, func(yi int, window []int) {
		y[yi] = x[argMax(x, window)]
	})
	return out, nil
}

// argMax is the first position in window of the largest number, or of a NaN.
func argMax[T float](x []T, window []int) int {
	best := window[0]
	for _, xi := range window[1:] {
		if x[xi] > x[best] || x[xi] != x[xi] {
			best = xi
		}
	}
	return best
}

func (o *MaxPool2D) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := Apply(&MaxPool2DGrad{Kernel: o.Kernel, Stride: o.Stride, Pad: o.Pad}, in[0], grad)
	return gorgonia.Nodes{dx}, err
}

// MaxPool2DGrad gives each dy to the position in x that was its window's
// maximum, the first one of several.
//
// Arguments: x (N,C,H,W), dy (N,C,OH,OW). Result: dx like x.
type MaxPool2DGrad struct {
	gradient
	Kernel, Stride, Pad [2]int
}

func (o *MaxPool2DGrad) Arity() int    { return 2 }
func (o *MaxPool2DGrad) Type() hm.Type { return fn(4, 4, 4) }
func (o *MaxPool2DGrad) String() string {
	return fmt.Sprintf("MaxPool2DGrad{kernel %v stride %v pad %v}", o.Kernel, o.Stride, o.Pad)
}
func (o *MaxPool2DGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *MaxPool2DGrad) Hashcode() uint32      { return hashcode(o) }

func (o *MaxPool2DGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4, 4)
	if err != nil {
		return nil, err
	}
	y, err := pooled(o, s[0], o.Kernel, o.Stride, o.Pad)
	if err != nil {
		return nil, err
	}
	if !y.Eq(s[1]) {
		return nil, fmt.Errorf("op: %v: dy is %v, want %v", o, s[1], y)
	}
	return s[0].Clone(), nil
}

func (o *MaxPool2DGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, maxPool2DGrad[float32], maxPool2DGrad[float64])
}

func maxPool2DGrad[T float](o *MaxPool2DGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, dx := dense[T](shape)
	x, dy := numbers[T](in[0]), numbers[T](in[1])
	eachWindow(shape, in[1].Shape(), o.Kernel, o.Stride, o.Pad, func(yi int, window []int) {
		dx[argMax(x, window)] += dy[yi]
	})
	return out, nil
}

// pooled is the shape of a pool's result over x.
func pooled(o gorgonia.Op, x tensor.Shape, kernel, stride, pad [2]int) (tensor.Shape, error) {
	hw, err := windowed(o, x, kernel, stride, pad)
	if err != nil {
		return nil, err
	}
	if 2*pad[0] > kernel[0] || 2*pad[1] > kernel[1] {
		return nil, fmt.Errorf("op: %v: pad %v is more than half of kernel %v", o, pad, kernel)
	}
	return tensor.Shape{x[0], x[1], hw[0], hw[1]}, nil
}

// eachWindow calls f with each position of y and the positions of its window in
// x that are not padding, in row-major order. f must not keep window.
func eachWindow(x, y tensor.Shape, kernel, stride, pad [2]int, f func(yi int, window []int)) {
	window := make([]int, 0, kernel[0]*kernel[1])
	for nc := range y[0] * y[1] {
		for i := range y[2] {
			for j := range y[3] {
				window = appendWindow(window[:0], nc, x, kernel, [2]int{i*stride[0] - pad[0], j*stride[1] - pad[1]})
				f((nc*y[2]+i)*y[3]+j, window)
			}
		}
	}
}

// appendWindow appends the positions of the window that begins at row and column first of channel
// nc.
func appendWindow(window []int, nc int, x tensor.Shape, kernel, first [2]int) []int {
	for h := max(0, first[0]); h < min(x[2], first[0]+kernel[0]); h++ {
		for v := max(0, first[1]); v < min(x[3], first[1]+kernel[1]); v++ {
			window = append(window, (nc*x[2]+h)*x[3]+v)
		}
	}
	return window
}
