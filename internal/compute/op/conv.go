package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A Reach is what a convolution may have beside stride and pad. Its zero value is a plain one.
type Reach struct {
	// Groups is how many convolutions stand side by side: each takes as many of x's channels, and
	// makes as many of y's. 0 is 1.
	Groups int

	// Dilation is the distance of two taps of the kernel. {0, 0} is {1, 1}.
	Dilation [2]int

	// PadMore is how many rows and columns of zeros there are at the bottom and at the right more
	// than Pad. It may be negative.
	PadMore [2]int
}

// GroupCount is the number of groups, at least 1.
func (r Reach) GroupCount() int { return max(1, r.Groups) }

// Steps is the distance of two taps, at least 1 each.
func (r Reach) Steps() [2]int { return [2]int{max(1, r.Dilation[0]), max(1, r.Dilation[1])} }

// Plain reports whether there is one group, no dilation, and as much padding on both sides.
func (r Reach) Plain() bool {
	return r.GroupCount() == 1 && r.Steps() == [2]int{1, 1} && r.PadMore == [2]int{}
}

// text is how String goes on after stride and pad.
func (r Reach) text() string {
	out := ""
	if n := r.GroupCount(); n > 1 {
		out += fmt.Sprintf(" groups %d", n)
	}
	if d := r.Steps(); d != [2]int{1, 1} {
		out += fmt.Sprintf(" dilation %v", d)
	}
	if r.PadMore != [2]int{} {
		out += fmt.Sprintf(" pad at the end %+d %+d", r.PadMore[0], r.PadMore[1])
	}
	return out
}

// Conv2D is the cross-correlation that networks call convolution:
//
//	y[n,o,i,j] = Σ_c Σ_r Σ_s x[n, g+c, i·Stride+r·Dilation−Pad, j·Stride+s·Dilation−Pad] · w[o,c,r,s]
//
// with x zero outside, and g the first channel of group ⌊o·Groups/O⌋. There is no bias; see BiasAdd.
//
// Arguments: x (N,C,H,W), w (O,C/Groups,KH,KW). Result: y (N,O,OH,OW) with
// OH = (H+2·Pad+PadMore−Dilation·(KH−1)−1)/Stride + 1, rounded down.
// Gradients: dx by Conv2DBackwardData, dw by Conv2DBackwardWeight.
type Conv2D struct {
	traits
	Stride, Pad [2]int // {H, W}
	Reach
}

func (o *Conv2D) Arity() int    { return 2 }
func (o *Conv2D) Type() hm.Type { return fn(4, 4, 4) }
func (o *Conv2D) String() string {
	return fmt.Sprintf("Conv2D{stride %v pad %v%s}", o.Stride, o.Pad, o.text())
}
func (o *Conv2D) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Conv2D) Hashcode() uint32      { return hashcode(o) }
func (o *Conv2D) DiffWRT(int) []bool    { return []bool{true, true} }

func (o *Conv2D) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4, 4)
	if err != nil {
		return nil, err
	}
	x, w := s[0], s[1]
	if err := o.checkGroups(o, x[1], w[0]); err != nil {
		return nil, err
	}
	if n := o.GroupCount(); x[1] != n*w[1] {
		if n > 1 {
			return nil, fmt.Errorf("op: %v: x %v has %d channels in %d groups and w %v takes %d of a group", o, x, x[1], n, w, w[1])
		}
		return nil, fmt.Errorf("op: %v: x %v has %d channels and w %v takes %d", o, x, x[1], w, w[1])
	}
	hw, err := o.windowed(o, x, [2]int{w[2], w[3]}, o.Stride, o.Pad)
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
	eachTap(in[0].Shape(), in[1].Shape(), shape, convTaps{o.Stride, o.Pad, o.Reach}, func(xi, wi, yi int) { y[yi] += x[xi] * w[wi] })
	return out, nil
}

func (o *Conv2D) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := Apply(&Conv2DBackwardData{Stride: o.Stride, Pad: o.Pad, Reach: o.Reach, XShape: in[0].Shape()}, in[1], grad)
	if err != nil {
		return nil, err
	}
	dw, err := Apply(&Conv2DBackwardWeight{Stride: o.Stride, Pad: o.Pad, Reach: o.Reach, WShape: in[1].Shape()}, in[0], grad)
	if err != nil {
		return nil, err
	}
	return gorgonia.Nodes{dx, dw}, nil
}

// Conv2DBackwardData is dx of a Conv2D with the same Stride, Pad and Reach: every
// product x·w of the forward sum gives dy·w to its x.
//
// Arguments: w (O,C,KH,KW), dy (N,O,OH,OW). Result: dx of shape XShape (N,C,H,W).
type Conv2DBackwardData struct {
	gradient
	Stride, Pad [2]int
	Reach
	XShape tensor.Shape
}

func (o *Conv2DBackwardData) Arity() int    { return 2 }
func (o *Conv2DBackwardData) Type() hm.Type { return fn(4, 4, 4) }
func (o *Conv2DBackwardData) String() string {
	return fmt.Sprintf("Conv2DBackwardData{stride %v pad %v%s x %v}", o.Stride, o.Pad, o.text(), o.XShape)
}
func (o *Conv2DBackwardData) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Conv2DBackwardData) Hashcode() uint32      { return hashcode(o) }

func (o *Conv2DBackwardData) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4, 4)
	if err != nil {
		return nil, err
	}
	if err := checkConvGrad(o, &Conv2D{Stride: o.Stride, Pad: o.Pad, Reach: o.Reach}, o.XShape, s[0], s[1]); err != nil {
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
	eachTap(shape, in[0].Shape(), in[1].Shape(), convTaps{o.Stride, o.Pad, o.Reach}, func(xi, wi, yi int) { dx[xi] += dy[yi] * w[wi] })
	return out, nil
}

// Conv2DBackwardWeight is dw of a Conv2D with the same Stride, Pad and Reach: every
// product x·w of the forward sum gives dy·x to its w.
//
// Arguments: x (N,C,H,W), dy (N,O,OH,OW). Result: dw of shape WShape (O,C,KH,KW).
type Conv2DBackwardWeight struct {
	gradient
	Stride, Pad [2]int
	Reach
	WShape tensor.Shape
}

func (o *Conv2DBackwardWeight) Arity() int    { return 2 }
func (o *Conv2DBackwardWeight) Type() hm.Type { return fn(4, 4, 4) }
func (o *Conv2DBackwardWeight) String() string {
	return fmt.Sprintf("Conv2DBackwardWeight{stride %v pad %v%s w %v}", o.Stride, o.Pad, o.text(), o.WShape)
}
func (o *Conv2DBackwardWeight) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Conv2DBackwardWeight) Hashcode() uint32      { return hashcode(o) }

func (o *Conv2DBackwardWeight) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4, 4)
	if err != nil {
		return nil, err
	}
	if err := checkConvGrad(o, &Conv2D{Stride: o.Stride, Pad: o.Pad, Reach: o.Reach}, s[0], o.WShape, s[1]); err != nil {
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
	eachTap(in[0].Shape(), shape, in[1].Shape(), convTaps{o.Stride, o.Pad, o.Reach}, func(xi, wi, yi int) { dw[wi] += dy[yi] * x[xi] })
	return out, nil
}

func checkConvGrad(o gorgonia.Op, forward *Conv2D, x, w, dy tensor.Shape) error {
	y, err := forward.InferShape(x, w)
	if err != nil {
		return err
	}
	if !y.Eq(dy) {
		return fmt.Errorf("op: %v: dy is %v, want %v", o, dy, y)
	}
	return nil
}

// checkGroups is an error unless groups divide the channels of both sides.
func (r Reach) checkGroups(o gorgonia.Op, in, out int) error {
	if n := r.GroupCount(); in%n != 0 || out%n != 0 || r.Groups < 0 {
		return fmt.Errorf("op: %v: %d channels to %d in %d groups, want numbers of channels that groups divide", o, in, out, r.Groups)
	}
	return nil
}

// windowed gives the height and width of a convolution's result.
func (r Reach) windowed(o gorgonia.Op, x tensor.Shape, kernel, stride, pad [2]int) (hw [2]int, err error) {
	if r.Dilation[0] < 0 || r.Dilation[1] < 0 {
		return hw, fmt.Errorf("op: %v: dilation %v, want at least 1", o, r.Dilation)
	}
	steps := r.Steps()
	for d := range hw {
		if kernel[d] > 0 {
			kernel[d] = (kernel[d]-1)*steps[d] + 1
		}
	}
	return windowedMore(o, x, kernel, stride, pad, r.PadMore)
}

// windowed gives the height and width of a pool's result.
func windowed(o gorgonia.Op, x tensor.Shape, kernel, stride, pad [2]int) (hw [2]int, err error) {
	return windowedMore(o, x, kernel, stride, pad, [2]int{})
}

// windowedMore is windowed with so much more padding at the end.
func windowedMore(o gorgonia.Op, x tensor.Shape, kernel, stride, pad, more [2]int) (hw [2]int, err error) {
	for d := range hw {
		if stride[d] < 1 || pad[d] < 0 || kernel[d] < 1 {
			return hw, fmt.Errorf("op: %v: kernel %v stride %v pad %v, want kernel and stride of at least 1 and pad of at least 0", o, kernel, stride, pad)
		}
		room := x[2+d] + 2*pad[d] + more[d] - kernel[d]
		if room < 0 {
			return hw, fmt.Errorf("op: %v: kernel %v does not fit into x %v with pad %v", o, kernel, x, pad)
		}
		hw[d] = room/stride[d] + 1
	}
	return hw, nil
}

// convTaps are where a convolution's kernel meets its image.
type convTaps struct {
	stride, pad [2]int
	Reach
}

// eachTap calls f with the positions of every product in a convolution, ordered so that each sum
// over taps runs over channel, row, column.
func eachTap(x, w, y tensor.Shape, at convTaps, f func(xi, wi, yi int)) {
	t := taps{x, w, at, y[1] / at.GroupCount(), at.Steps()}
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
	x, w tensor.Shape
	convTaps

	// perGroup is the number of output channels of a group.
	perGroup int
	steps    [2]int
}

// each calls f with the positions of the products of image n, output channel o and pixel at, which
// is at yi in the result.
func (t *taps) each(n, o int, at [2]int, yi int, f func(xi, wi, yi int)) {
	x, w := t.x, t.w
	first := o / t.perGroup * w[1]
	for c := range w[1] {
		for r := range w[2] {
			h := at[0]*t.stride[0] + r*t.steps[0] - t.pad[0]
			if h < 0 || h >= x[2] {
				continue
			}
			for s := range w[3] {
				v := at[1]*t.stride[1] + s*t.steps[1] - t.pad[1]
				if v >= 0 && v < x[3] {
					f(((n*x[1]+first+c)*x[2]+h)*x[3]+v, ((o*w[1]+c)*w[2]+r)*w[3]+s, yi)
				}
			}
		}
	}
}
