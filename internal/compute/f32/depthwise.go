package f32

// DepthwiseArgs are pixels of a depthwise convolution over channels last: a run of output pixels
// that meet the same taps.
type DepthwiseArgs struct {
	// Out begins with the first output pixel, In with the input pixel of its first tap, W has a row
	// of channels for each tap.
	Out, In, W []float32

	// Taps has, for each tap, the offset of its input pixel from the first tap's, and that of its
	// row in W.
	Taps [][2]int

	// Channels is how many there are, and Pixels the number of output pixels. OutStep and InStep
	// are the values from one to the next.
	Channels, Pixels, OutStep, InStep int

	// Add says that Depthwise adds to what Out holds.
	Add bool
}

// check panics unless all that the taps reach is there, which assembly does not look at.
func (a *DepthwiseArgs) check(op string) {
	if a.Channels < 1 || a.Pixels < 1 {
		panic("f32: " + op + ": no channels or no pixels")
	}
	last := a.Pixels - 1
	_ = a.Out[last*a.OutStep+a.Channels-1]
	for _, t := range a.Taps {
		_ = a.In[t[0]+last*a.InStep+a.Channels-1]
		_ = a.W[t[1]+a.Channels-1]
		_ = a.In[t[0]:]
		_ = a.W[t[1]:]
	}
}

// Depthwise sets each channel of each output pixel to the sum over taps of input times weight: to 0
// if there are none.
func Depthwise(a *DepthwiseArgs) {
	a.check("Depthwise")
	n := 0
	if lanes := vectorLanes(kernels.tile.path); lanes > 0 && len(a.Taps) > 0 {
		if n = a.Channels &^ (lanes - 1); n > 0 {
			depthwiseWide(kernels.tile.path, a, n)
		}
	}
	if n < a.Channels {
		depthwisePortable(a, n)
	}
}

// DepthwiseWeight adds the sums over pixels of input times Out, which is the gradient of the
// output here, to the rows of W.
func DepthwiseWeight(a *DepthwiseArgs) {
	a.check("DepthwiseWeight")
	n := 0
	if lanes := vectorLanes(kernels.tile.path); lanes > 0 && len(a.Taps) > 0 {
		if n = a.Channels &^ (lanes - 1); n > 0 {
			depthwiseWeightWide(kernels.tile.path, a, n)
		}
	}
	if n < a.Channels {
		depthwiseWeightPortable(a, n)
	}
}

// depthwisePortable is Depthwise of the channels from first on.
func depthwisePortable(a *DepthwiseArgs, first int) {
	for p := range a.Pixels {
		out := a.Out[p*a.OutStep+first : p*a.OutStep+a.Channels]
		if !a.Add {
			clear(out)
		}
		for _, t := range a.Taps {
			in, w := a.In[p*a.InStep+t[0]+first:][:len(out)], a.W[t[1]+first:][:len(out)]
			for i := range out {
				out[i] += in[i] * w[i]
			}
		}
	}
}

// depthwiseWeightPortable is DepthwiseWeight of the channels from first on.
func depthwiseWeightPortable(a *DepthwiseArgs, first int) {
	for p := range a.Pixels {
		out := a.Out[p*a.OutStep+first : p*a.OutStep+a.Channels]
		for _, t := range a.Taps {
			in, w := a.In[p*a.InStep+t[0]+first:][:len(out)], a.W[t[1]+first:][:len(out)]
			for i := range out {
				w[i] += in[i] * out[i]
			}
		}
	}
}
