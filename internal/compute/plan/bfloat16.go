package plan

// halve stores values as bfloat16, two bytes each, wherever that is possible. This is the one place
// that decides it: value by value, before memory is placed, from the table of storage alone.
//
// A value is stored as bfloat16 if it is a temporary tensor of images (four dimensions,
// channel-last, with no other name) and each op that writes or reads it can do so in bfloat16. Some
// ops want several of their values in one type: all of those are bfloat16 or none is. All else
// stays float32: what users see, parameters and their gradients, statistics, matrices, inputs in
// the other layout, and images that meet an op without such a kernel.
func (p *Plan) halve() {
	// group has values that have one type. Roots stand for themselves.
	group := make(map[*Value]*Value)
	var find func(v *Value) *Value
	find = func(v *Value) *Value {
		g, ok := group[v]
		if !ok || g == v {
			return v
		}
		g = find(g)
		group[v] = g
		return g
	}
	float := make(map[*Value]bool) // values that have to be float32
	for _, o := range p.Ops {
		s := storage[o.Kind]
		if o.Kind == Convert && o.In[0].Root().Source == Input {
			s = storing{}
		}
		var first *Value
		visit := func(v *Value, k int, free, alike uint) {
			switch {
			case v == nil:
			case v.Alias != nil || v.Source != Temporary || v.Boxed || v.Bytes != 4 || v.Layout != ChannelsLast || (free|alike)>>k&1 == 0:
				float[v.Root()] = true
			}
			if v == nil || alike>>k&1 == 0 {
				return
			}
			if first == nil {
				first = v.Root()
			} else {
				group[find(v.Root())] = find(first)
			}
		}
		for k, v := range o.In {
			visit(v, k, s.freeIn, s.alikeIn)
		}
		for k, v := range o.Out {
			visit(v, k, s.freeOut, s.alikeOut)
		}
	}
	wide := make(map[*Value]bool) // groups with one of those
	for v := range float {
		wide[find(v)] = true
	}
	for _, o := range p.Ops {
		for _, v := range o.Out {
			if v != nil && !float[v.Root()] && !wide[find(v)] {
				v.Bytes = 2
			}
		}
	}
}

// BFloat16 reports whether the value's numbers are stored as bfloat16.
func (v *Value) BFloat16() bool { return v.Bytes == 2 }

// A storing says which arguments and results of a kind may be bfloat16, a bit for each: the free
// ones whatever the others are, those that are alike together or not at all.
type storing struct{ freeIn, alikeIn, freeOut, alikeOut uint }

// storage has no entry for kinds that compute with float32 alone.
var storage = [numKinds]storing{
	Convert:            {freeIn: 1, freeOut: 1},
	Add:                {alikeIn: 3, alikeOut: 1},
	ReLU:               {alikeIn: 1, alikeOut: 1},
	ReLUGrad:           {alikeIn: 3, alikeOut: 1},
	BiasAdd:            {alikeIn: 1, alikeOut: 1},
	BiasGrad:           {freeIn: 1},
	Conv2D:             {freeIn: 1, freeOut: 1},
	ConvBackwardData:   {freeIn: 2, alikeIn: 4, alikeOut: 1},
	ConvBackwardWeight: {freeIn: 3},
	BatchNorm:          {alikeIn: 1 | 8, alikeOut: 1},
	BatchNormGrad:      {alikeIn: 1 | 16 | 32, alikeOut: 1},
	MaxPool:            {alikeIn: 1, alikeOut: 1},
	MaxPoolGrad:        {freeIn: 2, freeOut: 1},
	AvgPool:            {freeIn: 1, freeOut: 1},
	AvgPoolGrad:        {freeOut: 1},
	GlobalAvgPool:      {freeIn: 1},
	GlobalAvgPoolGrad:  {freeOut: 1},
	Upsample:           {alikeIn: 1, alikeOut: 1},
	UpsampleGrad:       {freeIn: 1, freeOut: 1},
	Dropout:            {alikeIn: 1, alikeOut: 1},
	Activation:         {alikeIn: 1, alikeOut: 1},
	ActivationGrad:     {alikeIn: 3, alikeOut: 1},
}
