package plan

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Layout says in which order the numbers of a value with four dimensions lie in memory. Its Shape
// is (N,C,H,W) in both.
type Layout uint8

const (
	// RowMajor is the order of the shape: NCHW. Values that have not four dimensions are always
	// RowMajor.
	RowMajor Layout = iota
	// ChannelsLast is NHWC.
	ChannelsLast
)

func (l Layout) String() string {
	if l == ChannelsLast {
		return "NHWC"
	}
	return "row-major"
}

// Source says where a value's numbers come from and how long they live.
type Source uint8

const (
	// Temporary values are computed and live until their last use.
	Temporary Source = iota
	// Input values are set by the user before a step.
	Input
	// Parameter values belong to the user, who may change them between steps; Index is the
	// parameter's.
	Parameter
	// Constant values are part of the graph.
	Constant
	// Gradient values are computed and live until the next step; Index is the parameter's.
	Gradient
	// Output values are computed and live until the next step.
	Output
	// Seed is the gradient of the loss with respect to itself: the one number by which all
	// gradients are multiplied.
	Seed
)

var sourceNames = [...]string{"temporary", "input", "parameter", "constant", "gradient", "output", "seed"}

func (s Source) String() string { return sourceNames[s] }

// A Value is one tensor of the plan.
type Value struct {
	ID int

	// Name is for messages.
	Name string

	Shape  tensor.Shape
	Dtype  tensor.Dtype
	Layout Layout
	Source Source

	// Index is that of a Parameter or Gradient.
	Index int

	// Node is the leaf, for Input, Parameter and Constant.
	Node *gorgonia.Node

	// Alias is not nil for another name of that value's memory.
	Alias *Value

	// Boxed values are not float32 numbers in the arena: the executor keeps the gorgonia.Value
	// that an op's Do gave it.
	Boxed bool
	// Bytes is the size of an element in memory: 4, 2 of numbers stored as bfloat16, and 1 for
	// MaxPool's choice.
	Bytes int
	// Float16 says that elements of 2 bytes are IEEE half precision, not bfloat16.
	Float16 bool
	// Lanes is the number of channels of a ChannelsLast value in memory, where an executor adds
	// channels of zeros; 0 is those of the shape.
	Lanes int

	// Offset is the place in the arena, in bytes, of Temporary values after Place.
	Offset int64
}

// Len is the number of elements.
func (v *Value) Len() int {
	if len(v.Shape) == 0 {
		return 1
	}
	return v.Shape.TotalSize()
}

// Size is the number of bytes in memory.
func (v *Value) Size() int64 {
	n := int64(v.Len())
	if v.Lanes > 0 {
		n = n / int64(v.Shape[1]) * int64(v.Lanes)
	}
	return n * int64(v.Bytes)
}

// Root is the value whose memory v names.
func (v *Value) Root() *Value {
	for v.Alias != nil {
		v = v.Alias
	}
	return v
}

// Channels is the size of dimension 1.
func (v *Value) Channels() int { return v.Shape[1] }

func (v *Value) String() string {
	if v == nil {
		return "-"
	}
	s := fmt.Sprintf("%%%d%v", v.ID, []int(v.Shape))
	if v.Layout == ChannelsLast {
		s += "nhwc"
	}
	switch {
	case v.Bytes == 2 && v.Float16:
		s += ":fp16"
	case v.Bytes == 2:
		s += ":bf16"
	}
	if v.Lanes > 0 {
		s += fmt.Sprintf(":lanes=%d", v.Lanes)
	}
	if v.Source != Temporary {
		s += ":" + v.Source.String()
	}
	if v.Alias != nil {
		s += fmt.Sprintf("=%%%d", v.Root().ID)
	}
	return s
}
