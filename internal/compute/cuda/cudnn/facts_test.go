package cudnn

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A Fact is something of the library that its documentation leaves open or says of some versions
// alone. Nothing depends on one being so: Otherwise says what is done if it is not. A program on a
// machine with a GPU can find them all out.
type Fact struct {
	Name  string
	Holds string // the statement

	// Otherwise is what is done where it does not hold.
	Otherwise string

	// Check finds out. It works on s and waits for it. detail says what was seen, in either
	// case; err that nothing was found out.
	Check func(h *Handle, s drv.Stream) (holds bool, detail string, err error)
}

// Facts lists them.
func Facts() []Fact {
	conv := Conv{N: 32, C: 64, H: 16, W: 16, K: 64, R: 3, S: 3, Pad: [2]int{1, 1}, Stride: [2]int{1, 1}, In: BFloat16, Weight: BFloat16, Out: BFloat16}
	wide, single, thin := conv, conv, conv
	wide.Weight = Float32
	single.In, single.Weight, single.Out = Float32, Float32, Float32
	thin.C = 3
	sum := conv
	sum.Accumulate = true
	norm := Norm{N: 32, C: 64, H: 16, W: 16, Type: BFloat16, Add: true, ReLU: true, Mask: true, Running: true, Epsilon: 1e-5, Momentum: 0.1}
	zeros := norm
	zeros.Zeros = true
	still := zeros
	still.Running = false
	grad := NormGrad{N: 32, C: 64, H: 16, W: 16, Type: BFloat16, Mask: true, DAdd: true}
	return []Fact{
		{"weight gradient in float32", "the graph interface writes a float32 dw from bfloat16 images", "dw is bfloat16 and is converted (BackwardWeightAny)",
			offered(func(h *Handle) ([]*Plan, error) { return graphPlans(h, BackwardWeight, wide) })},
		{"bfloat16 in the older interface", "cudnnConvolutionForward takes bfloat16 images, channel-last", "there are fewer candidates",
			offered(func(h *Handle) ([]*Plan, error) { return legacyPlans(h, Forward, conv) })},
		{"three channels", "an engine of the graph interface takes 3 channels of bfloat16", "the channels are padded to 8 by whoever lays the images out",
			offered(func(h *Handle) ([]*Plan, error) { return graphPlans(h, Forward, thin) })},
		{"float32 in full", "an engine of the graph interface multiplies float32 without tensor cores", "the older interface with CUDNN_FMA_MATH is used",
			offered(func(h *Handle) ([]*Plan, error) { return graphPlans(h, Forward, single) })},
		{"deterministic weight gradient", "an engine of the graph interface for dw has a fixed order of sums", "the older interface's algorithm 1 is used",
			offered(func(h *Handle) ([]*Plan, error) { return graphPlans(h, BackwardWeight, conv) })},
		{"accumulation", "an engine of the graph interface adds dx to what is there", "a kernel adds, or the older interface does",
			offered(func(h *Handle) ([]*Plan, error) { return graphPlans(h, BackwardData, sum) })},
		{"fused normalisation", "bfloat16 normalisation, addition, ReLU and a mask by zeros are one pass", "own kernels are used",
			offered(func(h *Handle) ([]*NormPlan, error) { return builtNorm(h, zeros) })},
		{"mask by a number", "the mask may be made by comparing with a number", "it is made by comparing with a tensor of zeros (NormAddReLU)",
			offered(func(h *Handle) ([]*NormPlan, error) { return builtNorm(h, norm) })},
		{"no running statistics", "a fused normalisation may leave out the running statistics", "Running is always set, and the caller ignores them",
			offered(func(h *Handle) ([]*NormPlan, error) { return builtNorm(h, still) })},
		{"fused gradient", "the gradient of a bfloat16 normalisation with a mask is one pass", "own kernels are used",
			offered(func(h *Handle) ([]*NormGradPlan, error) {
				plans, err := h.NormGradCandidates(grad)
				return first(plans, err, grad.String())
			})},
		{"order of the mask's bits", "bit i%8 of byte i/8 of a mask is that of element i", "masks are only given back to the library, never read", checkMaskBits},
		{"unbiased running variance", "the running variance takes the batch's variance times M/(M-1)", "own kernels move the running statistics", checkRunning},
	}
}

// first is the first plan that can be built: to build all of them takes the library seconds.
func first[P buildablePlan](plans []P, err error, what string) ([]P, error) {
	if err != nil {
		return nil, err
	}
	return keepBuilt(plans, 1, what)
}

// graphPlans is a built plan of the graph interface alone.
func graphPlans(h *Handle, op Op, c Conv) ([]*Plan, error) {
	defer func(legacy bool) { h.Legacy = legacy }(h.Legacy)
	h.Legacy = false
	plans, err := h.Candidates(op, c)
	return first(plans, err, describe(op, c))
}

// legacyPlans are those of the older interface.
func legacyPlans(h *Handle, op Op, c Conv) ([]*Plan, error) {
	plans, err := h.Candidates(op, c)
	var kept []*Plan
	var errs []error
	for _, p := range plans {
		if p.Mode() == ModeLegacy {
			kept = append(kept, p)
			continue
		}
		errs = append(errs, p.Close())
	}
	if len(kept) == 0 && err == nil {
		err = fmt.Errorf("cudnn: %s: no algorithm of the older interface: %w", describe(op, c), ErrNotSupported)
	}
	return kept, errors.Join(append(errs, err)...)
}

// builtNorm is a plan for exactly this Norm.
func builtNorm(h *Handle, n Norm) ([]*NormPlan, error) {
	plans, err := h.NormCandidates(n)
	return first(plans, err, n.String())
}

// offered makes a check of whether there are plans.
func offered[P buildablePlan](ask func(*Handle) ([]P, error)) func(*Handle, drv.Stream) (bool, string, error) {
	return func(h *Handle, _ drv.Stream) (bool, string, error) {
		plans, err := ask(h)
		if err != nil && Refused(err) {
			return false, err.Error(), nil
		}
		if err != nil {
			return false, "", err
		}
		detail := "by " + plans[0].Engine()
		closeAll(plans)
		return true, detail, nil
	}
}

// factNorm is the Norm of the checks by numbers: few enough numbers that the variance's factor
// M/(M-1) shows.
var factNorm = Norm{N: 2, C: 8, H: 2, W: 2, Type: Float32, ReLU: true, Mask: true, Running: true, Epsilon: 1e-5, Momentum: 0.5}

// tryNorm runs factNorm on numbers whose sign is a pattern without symmetry, and returns y, the
// mask's bytes and the running variance, which was 0.
func tryNorm(h *Handle, s drv.Stream) (x, y []float32, mask []byte, variance []float32, err error) {
	n := factNorm
	plans, err := builtNorm(h, n)
	if err != nil && Refused(err) {
		n.Zeros = true
		plans, err = builtNorm(h, n)
	}
	if err != nil {
		return nil, nil, nil, nil, err
	}
	defer closeAll(plans)
	p := plans[0]
	count := n.N * n.C * n.H * n.W
	ctx := h.ctx
	// One block of each memory: x, then what is 0, then scale, then what is written.
	const (
		atX, atZeros, atScale, atBias, atMean, atInvStd, atRunMean, atRunVar, atY, atMask = 0, 256, 512, 576, 640, 704, 768, 832, 1024, 1280
		total                                                                             = 2048
	)
	host, err := ctx.HostAlloc(total)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	defer func() { err = errors.Join(err, ctx.HostFree(host)) }()
	floats := func(at, n int) []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(&host[at])), n) }
	clear(host)
	for i := range floats(atX, count) {
		floats(atX, count)[i] = float32((i*37+11)%23) - 11
	}
	for i := range n.C {
		floats(atScale, n.C)[i] = 1
	}
	device, err := ctx.Malloc(total + max(p.Workspace(), 1))
	if err != nil {
		return nil, nil, nil, nil, err
	}
	defer func() { err = errors.Join(err, ctx.Free(device)) }()
	if err = ctx.CopyToDevice(device, unsafe.Pointer(&host[0]), total, s); err != nil {
		return nil, nil, nil, nil, err
	}
	if err = p.Run(s, device+total, NormArgs{X: device + atX, Zeros: device + atZeros, Scale: device + atScale, Bias: device + atBias, Y: device + atY,
		Mask: device + atMask, Mean: device + atMean, InvStd: device + atInvStd, RunningMean: device + atRunMean, RunningVar: device + atRunVar}); err != nil {
		return nil, nil, nil, nil, err
	}
	if err = ctx.CopyToHost(unsafe.Pointer(&host[0]), device, total, s); err != nil {
		return nil, nil, nil, nil, err
	}
	if err = ctx.Synchronize(s); err != nil {
		return nil, nil, nil, nil, err
	}
	clone := func(f []float32) []float32 { return append([]float32(nil), f...) }
	return clone(floats(atX, count)), clone(floats(atY, count)), append([]byte(nil), host[atMask:atMask+count/8]...), clone(floats(atRunVar, n.C)), nil
}

func checkMaskBits(h *Handle, s drv.Stream) (bool, string, error) {
	_, y, mask, _, err := tryNorm(h, s)
	if err != nil && Refused(err) {
		return false, err.Error(), nil
	}
	if err != nil {
		return false, "", err
	}
	want := make([]byte, len(mask))
	for i, v := range y {
		if v > 0 {
			want[i/8] |= 1 << (i % 8)
		}
	}
	return string(mask) == string(want), fmt.Sprintf("got %x, want %x", mask, want), nil
}

func checkRunning(h *Handle, s drv.Stream) (bool, string, error) {
	x, _, _, variance, err := tryNorm(h, s)
	if err != nil && Refused(err) {
		return false, err.Error(), nil
	}
	if err != nil {
		return false, "", err
	}
	n := factNorm
	m := len(x) / n.C
	var mean, square float64
	for i := range m {
		mean += float64(x[i*n.C]) / float64(m)
	}
	for i := range m {
		square += (float64(x[i*n.C]) - mean) * (float64(x[i*n.C]) - mean)
	}
	unbiased, biased := float64(n.Momentum)*square/float64(m-1), float64(n.Momentum)*square/float64(m)
	got := float64(variance[0])
	near := func(want float64) bool { return got > want*0.999 && got < want*1.001 }
	return near(unbiased), fmt.Sprintf("got %g, unbiased would be %g, biased %g", got, unbiased, biased), nil
}

// Constants are the values of the vendor's headers that this package uses, by their names there. A
// machine with the headers can compare.
func Constants() map[string]int64 {
	all := map[string]int64{
		"CUDNN_DATA_FLOAT": int64(Float32), "CUDNN_DATA_HALF": int64(Float16), "CUDNN_DATA_BFLOAT16": int64(BFloat16), "CUDNN_DATA_BOOLEAN": int64(boolean),
		"CUDNN_CROSS_CORRELATION": crossCorrelation, "CUDNN_POINTWISE_ADD": pointwiseAdd, "CUDNN_POINTWISE_MUL": pointwiseMul,
		"CUDNN_POINTWISE_RELU_FWD": pointwiseReLU, "CUDNN_POINTWISE_CMP_GT": pointwiseGreater, "CUDNN_BATCH_NORM": normBatch,
		"CUDNN_NORM_FWD_TRAINING": normPhaseTraining, "CUDNN_TENSOR_NHWC": formatNHWC, "CUDNN_DEFAULT_MATH": mathDefault,
		"CUDNN_TENSOR_OP_MATH": mathTensorCore, "CUDNN_FMA_MATH": mathFMA,
		"CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION": behaviorRuntimeCompiled, "CUDNN_PROPAGATE_NAN": propagateNaN,
		"CUDNN_NUMERICAL_NOTE_TENSOR_CORE": int64(NoteTensorCore), "CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS": int64(NoteDownConvertInputs),
		"CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION": int64(NoteReducedPrecision), "CUDNN_NUMERICAL_NOTE_FFT": int64(NoteFFT),
		"CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC": int64(NoteNonDeterministic), "CUDNN_NUMERICAL_NOTE_WINOGRAD": int64(NoteWinograd),
		"CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4": int64(NoteWinograd4x4), "CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6": int64(NoteWinograd6x6),
		"CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13": int64(NoteWinograd13x13),
	}
	for _, m := range heurModes {
		all["CUDNN_HEUR_MODE_"+string(m.mode)] = int64(m.value)
	}
	addNames(all, attributeNames)
	addNames(all, descriptorNames)
	addNames(all, attributeTypeNames)
	addNames(all, statusNames)
	return all
}

func addNames[T ~int32](all map[string]int64, names map[T]string) {
	for value, name := range names {
		all[name] = int64(value)
	}
}
