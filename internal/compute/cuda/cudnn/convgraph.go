package cudnn

// Values of enumerations that attributes take.
const (
	crossCorrelation  = 1 // cudnnConvolutionMode_t
	pointwiseAdd      = 0 // cudnnPointwiseMode_t
	pointwiseMul      = 1
	pointwiseReLU     = 100
	pointwiseGreater  = 302
	propagateNaN      = 1 // cudnnNanPropagation_t
	normBatch         = 2 // cudnnBackendNormMode_t
	normPhaseTraining = 1 // cudnnBackendNormFwdPhase_t
)

// convolution adds the descriptor of the window.
func (b *builder) convolution(c Conv) descriptor {
	d := b.begin(convolutionDescriptor)
	pad0, pad1 := int64(c.Pad[0]), int64(c.Pad[1])
	b.enum(d, attrConvCompType, typeDataType, int32(c.Compute))
	b.enum(d, attrConvMode, typeConvolutionMode, crossCorrelation)
	b.ints(d, attrConvSpatialDims, 2)
	b.ints(d, attrConvPrePaddings, pad0, pad1)
	b.ints(d, attrConvPostPaddings, pad0, pad1)
	b.ints(d, attrConvDilations, 1, 1)
	b.ints(d, attrConvFilterStrides, int64(c.Stride[0]), int64(c.Stride[1]))
	b.end(d, convolutionDescriptor)
	return d
}

// convAttributes are the attributes of the operation of a pass.
var convAttributes = [...]struct {
	t                            descriptorType
	alpha, beta, window, x, w, y attribute
}{
	Forward:        {forwardDescriptor, attrForwardAlpha, attrForwardBeta, attrForwardConvDesc, attrForwardX, attrForwardW, attrForwardY},
	BackwardData:   {backwardDataDescriptor, attrBwdDataAlpha, attrBwdDataBeta, attrBwdDataConvDesc, attrBwdDataDX, attrBwdDataW, attrBwdDataDY},
	BackwardWeight: {backwardFilterDescriptor, attrBwdFilterAlpha, attrBwdFilterBeta, attrBwdFilterConvDesc, attrBwdFilterX, attrBwdFilterDW, attrBwdFilterDY},
}

// convGraph is the graph of one pass. Its operands are x, w, y in this order, or their gradients.
func (h *Handle) convGraph(op Op, c Conv) (*graph, error) {
	p, q := c.OutSize()
	b := h.newGraph(describe(op, c))
	x := b.tensor(image("x", c.In, c.N, c.C, c.H, c.W).convolved())
	w := b.tensor(image("w", c.Weight, c.K, c.C, c.R, c.S).convolved())
	y := b.tensor(image("y", c.Out, c.N, c.K, p, q).convolved())
	window := b.convolution(c)
	a := convAttributes[op]
	d := b.begin(a.t)
	b.link(d, a.x, x)
	b.link(d, a.w, w)
	b.link(d, a.y, y)
	b.link(d, a.window, window)
	b.float(d, a.alpha, 1)
	b.float(d, a.beta, c.beta())
	b.operation(d, a.t)
	return b.finish()
}

func describe(op Op, c Conv) string { return op.String() + " " + c.String() }
