package cuda

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A Compute is the type in which a program multiplies.
type Compute uint8

const (
	// BFloat16 multiplies bfloat16 and adds in float32; images and matrices between operations
	// are stored as bfloat16.
	BFloat16 Compute = iota
	// Float32 computes everything in float32.
	Float32
	// TF32 is Float32 with operands of products rounded to 10 bits of precision, which tensor
	// cores multiply.
	TF32
	// Float16 is BFloat16 with IEEE half precision in its place, which needs loss scaling.
	Float16
)

var computeNames = [...]string{"bf16", "float32", "tf32", "fp16"}

func (c Compute) String() string {
	if int(c) < len(computeNames) {
		return computeNames[c]
	}
	return fmt.Sprintf("Compute(%d)", c)
}

// half reports whether values of 2 bytes are used, and typ is their type.
func (c Compute) half() bool { return c == BFloat16 || c == Float16 }

func (c Compute) typ() kernels.Type {
	switch c {
	case BFloat16:
		return kernels.BFloat16
	case Float16:
		return kernels.Float16
	}
	return kernels.Float32
}

// lanes is the number of channels that c channels take where they are padded: a multiple of 16
// bytes.
func (c Compute) lanes(channels int) int {
	n := int(16 / c.typ().Size())
	return (channels + n - 1) / n * n
}

// A storing says which arguments and results of a kind may have 2 bytes, a bit for each: the free
// ones whatever the others are, those that are alike together or not at all; all others are
// float32.
type storing struct{ freeIn, alikeIn, freeOut, alikeOut uint }

var storage = map[plan.Kind]storing{
	plan.Convert:            {freeIn: 1, freeOut: 1},
	plan.Copy:               {alikeIn: 1, alikeOut: 1},
	plan.Add:                {alikeIn: 3, alikeOut: 1},
	plan.ReLU:               {alikeIn: 1, alikeOut: 1},
	plan.ReLUGrad:           {alikeIn: 3, alikeOut: 1},
	plan.BiasAdd:            {alikeIn: 1, alikeOut: 1},
	plan.BiasGrad:           {freeIn: 1},
	plan.Conv2D:             {freeIn: 1, freeOut: 1},
	plan.ConvBackwardData:   {freeIn: 2, alikeIn: 4, alikeOut: 1},
	plan.ConvBackwardWeight: {freeIn: 3},
	plan.BatchNorm:          {alikeIn: 1 | 8, alikeOut: 1},
	plan.BatchNormGrad:      {alikeIn: 1 | 16 | 32, alikeOut: 1 | 8},
	plan.MaxPool:            {alikeIn: 1, alikeOut: 1},
	plan.MaxPoolGrad:        {alikeIn: 2, alikeOut: 1},
	plan.AvgPool:            {alikeIn: 1, alikeOut: 1},
	plan.AvgPoolGrad:        {alikeIn: 1, alikeOut: 1},
	plan.GlobalAvgPool:      {freeIn: 1, freeOut: 1},
	plan.GlobalAvgPoolGrad:  {freeIn: 1, freeOut: 1},
	plan.Linear:             {freeIn: 1, freeOut: 1},
	plan.LinearGrad:         {freeIn: 1 | 4, freeOut: 1},
	plan.Dropout:            {alikeIn: 1, alikeOut: 1},
	plan.Embedding:          {freeOut: 1},
	plan.EmbeddingGrad:      {freeIn: 2},
	plan.Softmax:            {alikeIn: 1, alikeOut: 1},
	plan.SoftmaxGrad:        {alikeIn: 3, alikeOut: 1},
	plan.MatMul:             {freeIn: 3, freeOut: 1},
}

// chooseTypes says how each temporary value is stored: in 2 bytes where every op that meets it can,
// and with padded channels where a host's image goes to convolutions alone. It is done before
// memory is placed.
func chooseTypes(p *plan.Plan, c Compute) {
	if c.half() {
		halve(p, c == Float16)
	}
	padInputs(p, c)
}

// halve stores temporaries in 2 bytes where every op that meets them can. Values that one op wants
// alike are a group, of which one that has to be float32 makes all float32.
func halve(p *plan.Plan, float16 bool) {
	// group has values that have one type. Roots stand for themselves.
	group := make(map[*plan.Value]*plan.Value)
	var find func(v *plan.Value) *plan.Value
	find = func(v *plan.Value) *plan.Value {
		g, ok := group[v]
		if !ok || g == v {
			return v
		}
		g = find(g)
		group[v] = g
		return g
	}

	// float has the values that have to be float32.
	float := make(map[*plan.Value]bool)
	for _, o := range p.Ops {
		s := storage[o.Kind]
		var first *plan.Value
		visit := func(v *plan.Value, k int, free, alike uint) {
			if v == nil {
				return
			}
			r := v.Root()
			if r.Source != plan.Temporary || r.Boxed || r.Bytes != 4 || len(r.Shape) < 2 || (free|alike)>>k&1 == 0 {
				float[r] = true
			}
			if alike>>k&1 == 0 {
				return
			}
			if first == nil {
				first = r
			} else {
				group[find(r)] = find(first)
			}
		}
		for k, v := range o.In {
			visit(v, k, s.freeIn, s.alikeIn)
		}
		for k, v := range o.Out {
			visit(v, k, s.freeOut, s.alikeOut)
		}
	}
	wide := make(map[*plan.Value]bool)
	for v := range float {
		wide[find(v)] = true
	}
	for _, o := range p.Ops {
		for _, v := range o.Out {
			if v != nil && v.Alias == nil && !float[v] && !wide[find(v)] {
				v.Bytes, v.Float16 = 2, float16
			}
		}
	}
}

// padInputs pads the channels of images that come from the host and are read by convolutions alone.
func padInputs(p *plan.Plan, c Compute) {
	images := make(map[*plan.Value]bool)
	for _, o := range p.Ops {
		if o.Kind == plan.Convert && o.In[0].Root().Source == plan.Input && o.Out[0].Layout == plan.ChannelsLast && o.Out[0].Source == plan.Temporary {
			images[o.Out[0]] = true
		}
	}
	for _, o := range p.Ops {
		for k, v := range o.In {
			if v == nil {
				continue
			}
			if k == 0 && (o.Kind == plan.Conv2D || o.Kind == plan.ConvBackwardWeight) && v.Alias == nil {
				continue
			}
			delete(images, v.Root())
		}
	}
	for v := range images {
		if n := c.lanes(v.Shape[1]); n != v.Shape[1] && typeOf(v) == c.typ() {
			v.Lanes = n
		}
	}
}

// typeOf is the type of a value's numbers on the device.
func typeOf(v *plan.Value) kernels.Type {
	switch r := v.Root(); {
	case r.Source == plan.Input && r.Boxed:
		return kernels.Int32
	case r.Bytes == 1:
		return kernels.Uint8
	case r.Bytes == 2 && r.Float16:
		return kernels.Float16
	case r.Bytes == 2:
		return kernels.BFloat16
	}
	return kernels.Float32
}

// lanesOf is the number of channels of a channel-last image in memory.
func lanesOf(v *plan.Value) int {
	if r := v.Root(); r.Lanes > 0 {
		return r.Lanes
	}
	return v.Shape[1]
}
