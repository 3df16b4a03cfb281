package cudnn

import (
	"errors"
	"fmt"
)

// A graph is a finished graph of operations with all its descriptors. Plans made of it share it.
type graph struct {
	h    *Handle
	what string // the question, for errors

	// owned are in the order in which they were made.
	owned []descriptor

	ops  []descriptor
	root descriptor // the operation graph

	// What a plan's caller supplies: the tensors that are not virtual, in the order in which
	// they were made.
	tensors []operand
	uid     int64
}

// An operand is a tensor whose memory a plan is given when it runs.
type operand struct {
	name string
	uid  int64

	// byValue says that the pointer is one of the host, to a single number.
	byValue bool

	aligned int64
}

// A tensor describes one operand or one value between operations.
type tensor struct {
	name string
	t    DType

	// dims are as the library wants them: N, C, H, W.
	dims [4]int64

	virtual bool // exists between operations only

	// byValue says that the host gives a number when the plan runs.
	byValue bool

	// aligned is the number of bytes that its address is a multiple of; 0: alignment.
	aligned int64
}

// strides are those of channel-last memory: of dims N, C, H, W the elements lie in the order N, H,
// W, C.
func (t tensor) strides() [4]int64 {
	c, h, w := t.dims[1], t.dims[2], t.dims[3]
	return [4]int64{h * w * c, 1, w * c, c}
}

// image is an operand of channel-last images.
func image(name string, t DType, n, c, h, w int) tensor {
	return tensor{name: name, t: t, dims: [4]int64{int64(n), int64(c), int64(h), int64(w)}}
}

// channels is an operand with one float32 for each channel.
func channels(name string, c int) tensor { return image(name, Float32, 1, c, 1, 1) }

// scalar is a float32 given by the host.
func scalar(name string) tensor {
	t := image(name, Float32, 1, 1, 1, 1)
	t.byValue = true
	return t
}

// convolved is an operand of a convolution.
func (t tensor) convolved() tensor { t.aligned = convAlignment; return t }

func (t tensor) asVirtual() tensor { t.virtual = true; return t }

// A builder makes a graph. After its first error it does nothing more, and finish returns that
// error.
type builder struct {
	*graph
	err error
}

func (h *Handle) newGraph(what string) *builder {
	return &builder{graph: &graph{h: h, what: what}}
}

// begin makes a descriptor that belongs to the graph.
func (b *builder) begin(t descriptorType) descriptor {
	if b.err != nil {
		return 0
	}
	if b.h.trace != nil {
		b.h.trace(fmt.Sprintf("create %v", t))
	}
	d, err := b.h.create(t, b.what)
	if err != nil {
		b.err = err
		return 0
	}
	b.owned = append(b.owned, d)
	return d
}

func (b *builder) ints(d descriptor, a attribute, values ...int64) {
	if b.err == nil {
		b.err = b.h.setInts(d, a, typeInt64, b.what, values...)
	}
}

func (b *builder) enum(d descriptor, a attribute, t attributeType, value int32) {
	if b.err == nil {
		b.err = b.h.setEnum(d, a, t, b.what, value)
	}
}

func (b *builder) flag(d descriptor, a attribute, value bool) {
	if b.err == nil {
		b.err = b.h.setBool(d, a, b.what, value)
	}
}

func (b *builder) float(d descriptor, a attribute, value float32) {
	if b.err == nil {
		b.err = b.h.setFloat(d, a, b.what, value)
	}
}

func (b *builder) double(d descriptor, a attribute, value float64) {
	if b.err == nil {
		b.err = b.h.setDouble(d, a, b.what, value)
	}
}

func (b *builder) link(d descriptor, a attribute, values ...descriptor) {
	if b.err == nil {
		b.err = b.h.setDescriptors(d, a, b.what, values...)
	}
}

func (b *builder) end(d descriptor, t descriptorType) {
	if b.err == nil {
		b.err = b.h.finalize(d, t, b.what)
	}
}

// operation adds a finished operation to the graph.
func (b *builder) operation(d descriptor, t descriptorType) {
	b.end(d, t)
	b.ops = append(b.ops, d)
}

// tensor adds a tensor.
func (b *builder) tensor(t tensor) descriptor {
	d := b.begin(tensorDescriptor)
	strides := t.strides()
	b.uid++
	b.enum(d, attrTensorDataType, typeDataType, int32(t.t))
	b.ints(d, attrTensorDimensions, t.dims[:]...)
	b.ints(d, attrTensorStrides, strides[:]...)
	b.ints(d, attrTensorUniqueID, b.uid)
	t.aligned = max(t.aligned, alignment)
	b.ints(d, attrTensorByteAlignment, t.aligned)
	if t.virtual {
		b.flag(d, attrTensorIsVirtual, true)
	} else {
		b.tensors = append(b.tensors, operand{t.name, b.uid, t.byValue, t.aligned})
	}
	if t.byValue {
		b.flag(d, attrTensorIsByValue, true)
	}
	b.end(d, tensorDescriptor)
	return d
}

// Pointers of tensors are multiples of alignment bytes, those of convolutions of convAlignment,
// which is what the frameworks tell the library that its heuristics are made for.
const (
	alignment     = 16
	convAlignment = 32
)

// finish makes the operation graph, or releases everything.
func (b *builder) finish() (*graph, error) {
	d := b.begin(graphDescriptor)
	if b.err == nil {
		b.err = b.h.setInts(d, attrGraphHandle, typeHandle, b.what, int64(b.h.handle))
	}
	b.link(d, attrGraphOps, b.ops...)
	b.end(d, graphDescriptor)
	if b.err != nil {
		return nil, errors.Join(b.err, b.destroy())
	}
	b.root = d
	b.h.graphs[b.graph] = 0
	return b.graph, nil
}

// destroy releases the graph, users before what they use.
func (g *graph) destroy() error {
	var errs []error
	for i := len(g.owned) - 1; i >= 0; i-- {
		errs = append(errs, g.h.destroy(g.owned[i]))
	}
	g.owned = nil
	delete(g.h.graphs, g)
	return errors.Join(errs...)
}

// retain and release count the plans that use the graph.
func (g *graph) retain() { g.h.graphs[g]++ }

func (g *graph) release() error {
	g.h.graphs[g]--
	if g.h.graphs[g] > 0 {
		return nil
	}
	return g.destroy()
}
