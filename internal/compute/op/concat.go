package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Concat puts its arguments one behind the other along an axis.
//
// Arguments: Count tensors of Dims dimensions, of the same sizes but for the axis. Result: y, whose
// size of the axis is the sum of theirs. Gradients: Slices of dy.
type Concat struct {
	traits
	Axis, Dims, Count int
}

func (o *Concat) Arity() int { return o.Count }
func (o *Concat) Type() hm.Type {
	dims := make([]int, o.Count+1)
	for i := range dims {
		dims[i] = o.Dims
	}
	return fn(dims...)
}
func (o *Concat) String() string {
	return fmt.Sprintf("Concat{axis %d of %d, %d arguments}", o.Axis, o.Dims, o.Count)
}
func (o *Concat) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Concat) Hashcode() uint32      { return hashcode(o) }
func (o *Concat) DiffWRT(n int) []bool  { return allTrue(n) }

func allTrue(n int) []bool {
	d := make([]bool, n)
	for i := range d {
		d[i] = true
	}
	return d
}

func (o *Concat) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	dims := make([]int, o.Count)
	for i := range dims {
		dims[i] = o.Dims
	}
	s, err := argShapes(o, ds, dims...)
	if err != nil {
		return nil, err
	}
	if o.Count < 1 || o.Axis < 0 || o.Axis >= o.Dims {
		return nil, fmt.Errorf("op: %v: want an axis from 0 to %d and at least one argument", o, o.Dims-1)
	}
	out := s[0].Clone()
	for _, t := range s[1:] {
		if !t[:o.Axis].Eq(out[:o.Axis]) || !t[o.Axis+1:].Eq(out[o.Axis+1:]) {
			return nil, fmt.Errorf("op: %v: arguments are %v, want the same sizes but for axis %d", o, s, o.Axis)
		}
		out[o.Axis] += t[o.Axis]
	}
	return out, nil
}

func (o *Concat) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, concat[float32], concat[float64])
}

func concat[T float](o *Concat, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	at := 0
	for _, v := range in {
		size := v.Shape()[o.Axis]
		place(y, numbers[T](v), shape, o.Axis, at, size, func(whole, part []T) { copy(whole, part) })
		at += size
	}
	return out, nil
}

// place calls f for each run of numbers that the piece of size indices from lo on along an axis has
// in whole, a tensor of the given shape: with the run there and in part, where the piece lies alone.
func place[T float](whole, part []T, shape tensor.Shape, axis, lo, size int, f func(whole, part []T)) {
	inner := shape[axis+1:].TotalSize()
	if axis+1 == len(shape) {
		inner = 1
	}
	run, stride := size*inner, shape[axis]*inner
	for i := range len(whole) / stride {
		f(whole[i*stride+lo*inner:][:run], part[i*run:][:run])
	}
}

func (o *Concat) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	out, at := make(gorgonia.Nodes, len(in)), 0
	for i, n := range in {
		var err error
		size := n.Shape()[o.Axis]
		if out[i], err = Apply(&Slice{Axis: o.Axis, Lo: at, Hi: at + size, Dims: o.Dims}, grad); err != nil {
			return nil, err
		}
		at += size
	}
	return out, nil
}

// Slice takes the indices from Lo up to, without, Hi along an axis.
//
// Arguments: x of Dims dimensions. Result: y, whose size of the axis is Hi−Lo. Gradient: by
// SliceGrad.
type Slice struct {
	traits
	Axis, Lo, Hi, Dims int
}

func (o *Slice) Arity() int    { return 1 }
func (o *Slice) Type() hm.Type { return fn(o.Dims, o.Dims) }
func (o *Slice) String() string {
	return fmt.Sprintf("Slice{axis %d of %d, %d to %d}", o.Axis, o.Dims, o.Lo, o.Hi)
}
func (o *Slice) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Slice) Hashcode() uint32      { return hashcode(o) }
func (o *Slice) DiffWRT(int) []bool    { return []bool{true} }

func (o *Slice) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, o.Dims)
	if err != nil {
		return nil, err
	}
	if o.Axis < 0 || o.Axis >= o.Dims || o.Lo < 0 || o.Lo >= o.Hi || o.Hi > s[0][o.Axis] {
		return nil, fmt.Errorf("op: %v: x is %v, want an axis of it and 0 ≤ from < to ≤ its size", o, s[0])
	}
	out := s[0].Clone()
	out[o.Axis] = o.Hi - o.Lo
	return out, nil
}

func (o *Slice) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, slice[float32], slice[float64])
}

func slice[T float](o *Slice, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	place(numbers[T](in[0]), y, in[0].Shape(), o.Axis, o.Lo, o.Hi-o.Lo, func(whole, part []T) { copy(part, whole) })
	return out, nil
}

func (o *Slice) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	dx, err := Apply(&SliceGrad{Axis: o.Axis, Lo: o.Lo, Size: in[0].Shape()[o.Axis], Dims: o.Dims}, grad)
	return gorgonia.Nodes{dx}, err
}

// SliceGrad is a tensor that has dy from index Lo on along an axis, whose size is Size, and is 0
// elsewhere.
//
// Arguments: dy of Dims dimensions. Result: dx.
type SliceGrad struct {
	gradient
	Axis, Lo, Size, Dims int
}

func (o *SliceGrad) Arity() int    { return 1 }
func (o *SliceGrad) Type() hm.Type { return fn(o.Dims, o.Dims) }
func (o *SliceGrad) String() string {
	return fmt.Sprintf("SliceGrad{axis %d of %d, from %d of %d}", o.Axis, o.Dims, o.Lo, o.Size)
}
func (o *SliceGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *SliceGrad) Hashcode() uint32      { return hashcode(o) }

func (o *SliceGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, o.Dims)
	if err != nil {
		return nil, err
	}
	if o.Axis < 0 || o.Axis >= o.Dims || o.Lo < 0 || o.Lo+s[0][o.Axis] > o.Size {
		return nil, fmt.Errorf("op: %v: dy is %v", o, s[0])
	}
	out := s[0].Clone()
	out[o.Axis] = o.Size
	return out, nil
}

func (o *SliceGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, sliceGrad[float32], sliceGrad[float64])
}

func sliceGrad[T float](o *SliceGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, dx := dense[T](shape)
	place(dx, numbers[T](in[0]), shape, o.Axis, o.Lo, in[0].Shape()[o.Axis], func(whole, part []T) { copy(whole, part) })
	return out, nil
}
