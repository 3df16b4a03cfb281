package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// ConvTranspose2D is what gives Conv2D its dx: each number of x, times the kernel, is added to a
// window of y. So y is as large as an image that a Conv2D of this Stride, Pad and Dilation makes x
// of. Several sizes are; OutputPad says how many rows and columns more than the smallest.
//
// Arguments: x (N,C,H,W), w (C,O/Groups,KH,KW). Result: y (N,O,OH,OW) with
// OH = (H−1)·Stride − 2·Pad + Dilation·(KH−1) + OutputPad + 1.
// Gradients: dx by Conv2D of dy, dw by Conv2DBackwardWeight of dy and x.
type ConvTranspose2D struct {
	traits
	Stride, Pad, OutputPad [2]int // {H, W}
	Groups                 int    // 0 is 1
	Dilation               [2]int // {0, 0} is {1, 1}
}

func (o *ConvTranspose2D) Arity() int    { return 2 }
func (o *ConvTranspose2D) Type() hm.Type { return fn(4, 4, 4) }
func (o *ConvTranspose2D) String() string {
	r := o.reach()
	r.PadMore = [2]int{}
	return fmt.Sprintf("ConvTranspose2D{stride %v pad %v output pad %v%s}", o.Stride, o.Pad, o.OutputPad, r.text())
}
func (o *ConvTranspose2D) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *ConvTranspose2D) Hashcode() uint32      { return hashcode(o) }
func (o *ConvTranspose2D) DiffWRT(int) []bool    { return []bool{true, true} }

// reach is that of the convolution that makes x of y: it does not look at the last OutputPad rows
// and columns.
func (o *ConvTranspose2D) reach() Reach {
	return Reach{Groups: o.Groups, Dilation: o.Dilation, PadMore: [2]int{-o.OutputPad[0], -o.OutputPad[1]}}
}

// Data is the op that computes the same of w and x, for a y of this shape.
func (o *ConvTranspose2D) Data(y tensor.Shape) *Conv2DBackwardData {
	return &Conv2DBackwardData{Stride: o.Stride, Pad: o.Pad, Reach: o.reach(), XShape: y}
}

func (o *ConvTranspose2D) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 4, 4)
	if err != nil {
		return nil, err
	}
	x, w, r := s[0], s[1], o.reach()
	if x[1] != w[0] {
		return nil, fmt.Errorf("op: %v: x %v has %d channels and w %v takes %d", o, x, x[1], w, w[0])
	}
	if o.Dilation[0] < 0 || o.Dilation[1] < 0 {
		return nil, fmt.Errorf("op: %v: dilation %v, want at least 1", o, o.Dilation)
	}
	y := tensor.Shape{x[0], w[1] * r.GroupCount(), 0, 0}
	if err := r.checkGroups(o, x[1], y[1]); err != nil {
		return nil, err
	}
	steps := r.Steps()
	for d := range 2 {
		k := w[2+d]
		if o.Stride[d] < 1 || o.Pad[d] < 0 || k < 1 {
			return nil, fmt.Errorf("op: %v: kernel %v, want kernel and stride of at least 1 and pad of at least 0", o, w[2:])
		}
		if o.OutputPad[d] < 0 || o.OutputPad[d] >= max(o.Stride[d], steps[d]) {
			return nil, fmt.Errorf("op: %v: output pad is %d, want less than the stride %d or the dilation %d", o, o.OutputPad[d], o.Stride[d], steps[d])
		}
		y[2+d] = (x[2+d]-1)*o.Stride[d] - 2*o.Pad[d] + steps[d]*(k-1) + o.OutputPad[d] + 1
		if y[2+d] < 1 {
			return nil, fmt.Errorf("op: %v: x %v and w %v leave a size of %d, want at least 1: take less padding", o, x, w, y[2+d])
		}
	}
	return y, nil
}

func (o *ConvTranspose2D) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, convTranspose2D[float32], convTranspose2D[float64])
}

func convTranspose2D[T float](o *ConvTranspose2D, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	return conv2DBackwardData[T](o.Data(shape), []gorgonia.Value{in[1], in[0]}, shape)
}

func (o *ConvTranspose2D) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := Apply(&Conv2D{Stride: o.Stride, Pad: o.Pad, Reach: o.reach()}, grad, in[1])
	if err != nil {
		return nil, err
	}
	dw, err := Apply(&Conv2DBackwardWeight{Stride: o.Stride, Pad: o.Pad, Reach: o.reach(), WShape: in[1].Shape()}, grad, in[0])
	if err != nil {
		return nil, err
	}
	return gorgonia.Nodes{dx, dw}, nil
}
