package cuda

import (
	"errors"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// An inputs is the device's memory of the inputs of a plan.
type inputs struct {
	gpu  *GPU
	plan *plan.Plan
	host *plan.Host

	// list is by input of the plan.
	list []input

	// floats are the mirrors of float32 inputs.
	floats mirrors
}

func newInputs(g *GPU, p *plan.Plan, host *plan.Host) *inputs {
	return &inputs{gpu: g, plan: p, host: host, floats: mirrors{gpu: g, what: "inputs", blocks: host.Blocks}}
}

// index is the number of an input among those of the plan.
func (in *inputs) index(v *plan.Value) int {
	for i, other := range in.plan.Inputs {
		if other == v {
			return i
		}
	}
	panic(fmt.Sprintf("cuda: value %v is no input of the plan", v))
}

// of is the memory of an input of the plan.
func (in *inputs) of(v *plan.Value) *input { return &in.list[in.index(v)] }

// alloc takes memory for all inputs that an op reads.
func (in *inputs) alloc() error {
	in.list = make([]input, len(in.plan.Inputs))
	for i, v := range in.plan.Inputs {
		in.list[i] = input{value: v, least: math.MinInt32, most: math.MaxInt32}
	}
	reads := inputReads{inputs: in, numbers: make([]bool, len(in.list)), indices: make([]bool, len(in.list))}
	for _, o := range in.plan.Ops {
		if err := reads.note(o); err != nil {
			return err
		}
	}
	for i := range in.list {
		if err := in.allocOne(i, reads); err != nil {
			return err
		}
	}
	return nil
}

// allocOne takes the memory of input i by how ops read it. One that no op reads gets none.
func (in *inputs) allocOne(i int, reads inputReads) (err error) {
	one := &in.list[i]
	switch {
	case reads.indices[i] && reads.numbers[i]:
		return fmt.Errorf("cuda: input %q is read as labels and as numbers", one.value.Name)
	case reads.indices[i]:
		return one.allocInts(in.gpu)
	case reads.numbers[i]:
		if one.float, err = in.floats.span(in.host.Inputs[i].Data.([]float32)); err == nil {
			one.device = one.float.mirror.device + drv.Ptr(one.float.from)
		}
	}
	return err
}

// An inputReads is how the ops of a plan read its inputs: as numbers, or as indices of classes and
// rows. Bounds of indices are noted in the inputs.
type inputReads struct {
	inputs           *inputs
	numbers, indices []bool
}

// note notes what an op reads.
func (r *inputReads) note(o *plan.Op) error {
	at, least, most, what := -1, 0, 0, ""
	switch o.Kind {
	case plan.CrossEntropy, plan.CrossEntropyGrad:
		at, least, most, what = 1, -1, o.In[0].Shape[1]-1, "label of example"
	case plan.Embedding:
		at, most, what = 1, o.In[0].Shape[0]-1, "id at position"
	case plan.EmbeddingGrad:
		at, most, what = 0, o.Out[0].Shape[0]-1, "id at position"
	}
	for k, v := range o.In {
		if v == nil {
			continue
		}
		root := v.Root()
		switch {
		case k == at && root.Source != plan.Input:
			return fmt.Errorf("cuda: node %q: %v: argument %d (%q) is computed in the graph, want an input", o.Node, o.Kind, k, v.Name)
		case k == at:
			in := r.inputs.of(root)
			in.least, in.most, in.what = max(in.least, least), min(in.most, most), fmt.Sprintf("node %q: %v: %s", o.Node, o.Kind, what)
			in.labels, in.ids = in.labels || least < 0, in.ids || least == 0
			r.indices[r.inputs.index(root)] = true
		case root.Source == plan.Input:
			r.numbers[r.inputs.index(root)] = true
			if root.Boxed {
				return fmt.Errorf("cuda: node %q: %v: argument %d (%q) is %v, want float32", o.Node, o.Kind, k, v.Name, v.Dtype)
			}
		}
	}
	return nil
}

// take reads labels and row numbers of a run from the host, and checks them.
func (in *inputs) take(ex *examples) error {
	for i := range in.list {
		if one := &in.list[i]; one.ints != nil {
			if err := one.take(in.host.Inputs[i].Data, ex.rows(len(one.ints))); err != nil {
				return err
			}
		}
	}
	return nil
}

// up copies the inputs of a run to the device.
func (in *inputs) up(s drv.Stream) error {
	for i := range in.list {
		if err := in.list[i].up(in.gpu, s); err != nil {
			return err
		}
	}
	return nil
}

// bytes is the pixels that v's numbers are made of; nil if they are numbers.
func (in *inputs) bytes(v *plan.Value) *pixels {
	r := v.Root()
	if r.Source != plan.Input {
		return nil
	}
	if p := in.of(r).pixels; p != nil && !p.direct {
		return p
	}
	return nil
}

func (in *inputs) close() error {
	var errs []error
	for i := range in.list {
		errs = append(errs, in.list[i].close(in.gpu.context))
	}
	return errors.Join(append(errs, in.floats.close())...)
}
