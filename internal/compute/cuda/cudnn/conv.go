package cudnn

import (
	"fmt"
	"math"
)

// An Op is one of the three passes of a convolution.
type Op int

// The passes.
const (
	Forward        Op = iota // x, w → y
	BackwardData             // w, dy → dx
	BackwardWeight           // x, dy → dw
)

func (o Op) String() string {
	switch o {
	case Forward:
		return "forward"
	case BackwardData:
		return "backward data"
	case BackwardWeight:
		return "backward weight"
	}
	return fmt.Sprintf("Op(%d)", int(o))
}

// A Conv is a question: a convolution of images (N,H,W,C) with weights (K,R,S,C), without groups or
// dilation, and its gradients. Two Convs are the same question if they are equal.
type Conv struct {
	// N, C, H and W are those of the images: how many, channels, height, width.
	N, C, H, W int

	// K, R and S are those of the weights: channels out, height, width.
	K, R, S int

	// Pad is the zeros around the image: above and below, left and right.
	Pad [2]int

	Stride [2]int // down, to the right

	// In is the type of x and dx.
	In DType

	// Weight is the type of w and dw.
	Weight DType

	// Out is the type of y and dy.
	Out DType

	// Compute is the type of products and sums. Only Float32, the zero value, is allowed.
	Compute DType

	// TF32 lets float32 products lose mantissa bits, 10 being left, for the sake of tensor
	// cores.
	TF32 bool

	// Accumulate adds the result to what its memory holds, in place of writing over it: the
	// gradient of an image that two ops read in one pass less. Not every engine does it.
	Accumulate bool

	// NonDeterministic lets in engines whose sums are made in an order that differs from run to
	// run. They are sometimes faster, above all backward; results then repeat only to rounding.
	NonDeterministic bool
}

// OutSize is P and Q, the height and width of y.
func (c Conv) OutSize() (p, q int) {
	return (c.H+2*c.Pad[0]-c.R)/c.Stride[0] + 1, (c.W+2*c.Pad[1]-c.S)/c.Stride[1] + 1
}

func (c Conv) String() string {
	text := fmt.Sprintf("convolution of N%d C%d H%d W%d with K%d R%d S%d, pad %d %d, stride %d %d, %v with %v to %v", c.N, c.C, c.H, c.W,
		c.K, c.R, c.S, c.Pad[0], c.Pad[1], c.Stride[0], c.Stride[1], c.In, c.Weight, c.Out)
	if c.TF32 {
		text += ", tf32"
	}
	if c.Accumulate {
		text += ", accumulate"
	}
	if c.NonDeterministic {
		text += ", nondeterministic"
	}
	return text
}

// Validate names the field that no convolution can have, its value and the rule.
func (c Conv) Validate() error {
	for _, f := range []struct {
		name  string
		value int
		least int
	}{
		{"N", c.N, 1}, {"C", c.C, 1}, {"H", c.H, 1}, {"W", c.W, 1}, {"K", c.K, 1}, {"R", c.R, 1}, {"S", c.S, 1},
		{"Pad[0]", c.Pad[0], 0}, {"Pad[1]", c.Pad[1], 0}, {"Stride[0]", c.Stride[0], 1}, {"Stride[1]", c.Stride[1], 1},
	} {
		if f.value < f.least || f.value > math.MaxInt32 {
			return fmt.Errorf("cudnn: %v: %s is %d, want %d to %d", c, f.name, f.value, f.least, math.MaxInt32)
		}
	}
	if c.R > c.H+2*c.Pad[0] || c.S > c.W+2*c.Pad[1] {
		return fmt.Errorf("cudnn: %v: the window %d×%d is larger than the padded image %d×%d", c, c.R, c.S, c.H+2*c.Pad[0], c.W+2*c.Pad[1])
	}
	for _, f := range []struct {
		name string
		t    DType
	}{{"In", c.In}, {"Weight", c.Weight}, {"Out", c.Out}} {
		if err := f.t.check(f.name); err != nil {
			return fmt.Errorf("cudnn: %v: %w", c, err)
		}
	}
	if c.Compute != Float32 {
		return fmt.Errorf("cudnn: %v: Compute is %v, want float32", c, c.Compute)
	}
	return nil
}

// beta is what the memory of the result is multiplied with before the result is added.
func (c Conv) beta() float32 {
	if c.Accumulate {
		return 1
	}
	return 0
}

// sizes are the bytes of x, w and y.
func (c Conv) sizes() (x, w, y int64) {
	p, q := c.OutSize()
	return int64(c.N) * int64(c.H) * int64(c.W) * int64(c.C) * c.In.Size(), int64(c.K) * int64(c.R) * int64(c.S) * int64(c.C) * c.Weight.Size(),
		int64(c.N) * int64(p) * int64(q) * int64(c.K) * c.Out.Size()
}
