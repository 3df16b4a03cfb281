package cudnn

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A legacyPlan is one algorithm of the older interface for one pass.
type legacyPlan struct {
	h         *Handle
	shared    *legacyShared
	op        Op
	beta      float32
	algorithm int32
	name      string // "legacy forward algo 1"
	what      string
	notes     []Note
	workspace int64
	run1      uintptr // cudnnConvolutionForward or its like
}

// legacyShared are the descriptors that the algorithms of one question share.
type legacyShared struct {
	h             *Handle
	users         int
	x, w, y, conv uintptr
	destroy       [4]uintptr
}

// Values of enumerations of the older interface.
const (
	formatNHWC = 1 // cudnnTensorFormat_t

	// mathDefault is of cudnnMathType_t. For float32 it allows tf32.
	mathDefault = 0

	mathTensorCore = 1
	mathFMA        = 3 // float32 in full
)

// legacyPrefix begins the names of the older interface's plans; what follows is the algorithm.
const legacyPrefix = "legacy algo "

// legacyPasses has for each pass the functions, the number of algorithms, and those of them whose
// sums have no fixed order (the documentation of cudnnConvolutionBwdDataAlgo_t and
// cudnnConvolutionBwdFilterAlgo_t).
var legacyPasses = [...]struct {
	size, run        string
	algorithms       int32
	nondeterministic []int32
	fft              []int32
	winograd         []int32
	winograd6x6      []int32 // those called NONFUSED
}{
	Forward:        {"cudnnGetConvolutionForwardWorkspaceSize", "cudnnConvolutionForward", 8, nil, []int32{4, 5}, []int32{6}, []int32{7}},
	BackwardData:   {"cudnnGetConvolutionBackwardDataWorkspaceSize", "cudnnConvolutionBackwardData", 6, []int32{0}, []int32{2, 3}, []int32{4}, []int32{5}},
	BackwardWeight: {"cudnnGetConvolutionBackwardFilterWorkspaceSize", "cudnnConvolutionBackwardFilter", 7, []int32{0, 3}, []int32{2, 6}, []int32{4}, []int32{5}},
}

// legacyCandidates gives the algorithms that the library takes for a pass. A library without the
// older interface has none.
func (h *Handle) legacyCandidates(op Op, c Conv, w wish) (plans []*legacyPlan, err error) {
	pass := legacyPasses[op]
	symbols := make(map[string]uintptr)
	for _, name := range []string{pass.size, pass.run, "cudnnCreateTensorDescriptor", "cudnnSetTensor4dDescriptorEx", "cudnnDestroyTensorDescriptor",
		"cudnnCreateFilterDescriptor", "cudnnSetFilter4dDescriptor", "cudnnDestroyFilterDescriptor", "cudnnCreateConvolutionDescriptor",
		"cudnnSetConvolution2dDescriptor", "cudnnSetConvolutionMathType", "cudnnDestroyConvolutionDescriptor"} {
		address, err := h.lib.Symbol(name)
		if err != nil {
			return nil, nil
		}
		symbols[name] = address
	}
	what := describe(op, c)
	shared := &legacyShared{h: h, users: 1, destroy: [4]uintptr{symbols["cudnnDestroyTensorDescriptor"], symbols["cudnnDestroyFilterDescriptor"],
		symbols["cudnnDestroyTensorDescriptor"], symbols["cudnnDestroyConvolutionDescriptor"]}}
	defer func() {
		err = errors.Join(err, shared.release())
		if err != nil {
			for _, p := range plans {
				p.close()
			}
			plans = nil
		}
	}()
	if err := shared.describe(symbols, c, what); err != nil {
		return nil, err
	}
	for algorithm := range pass.algorithms {
		var notes []Note
		for _, kind := range []struct {
			algorithms []int32
			note       Note
		}{{pass.nondeterministic, NoteNonDeterministic}, {pass.fft, NoteFFT}, {pass.winograd, NoteWinograd}, {pass.winograd6x6, NoteWinograd6x6}} {
			for _, a := range kind.algorithms {
				if a == algorithm {
					notes = append(notes, kind.note)
				}
			}
		}
		if w.refuses(notes) != "" {
			continue
		}
		p := &legacyPlan{h: h, shared: shared, op: op, beta: c.beta(), algorithm: algorithm, name: fmt.Sprintf("%s%d", legacyPrefix, algorithm), what: what,
			notes: notes, run1: symbols[pass.run]}
		x, wd, y := shared.order(op)
		h.mem.words[0] = 0
		status := Status(h.caller.Call(symbols[pass.size], h.handle, x, wd, shared.conv, y, uintptr(algorithm), uintptr(unsafe.Pointer(&h.mem.words[0]))))
		if status != 0 {
			// It is not for this question. Some of them say so by finding fault with a parameter.
			continue
		}
		p.workspace = int64(h.mem.words[0])
		shared.users++
		plans = append(plans, p)
	}
	return plans, nil
}

// order is that of the descriptors before and after the window's in the calls of a pass: x w | y, w
// dy | dx, x dy | dw.
func (s *legacyShared) order(op Op) (a, b, result uintptr) {
	switch op {
	case BackwardData:
		return s.w, s.y, s.x
	case BackwardWeight:
		return s.x, s.y, s.w
	}
	return s.x, s.w, s.y
}

// describe makes and fills the descriptors.
func (s *legacyShared) describe(symbols map[string]uintptr, c Conv, what string) error {
	h := s.h
	call := func(name string, args ...uintptr) error {
		if status := Status(h.caller.Call(symbols[name], args...)); status != 0 {
			return h.failed(name, what, status)
		}
		return nil
	}
	for _, d := range []struct {
		to   *uintptr
		name string
	}{{&s.x, "cudnnCreateTensorDescriptor"}, {&s.w, "cudnnCreateFilterDescriptor"}, {&s.y, "cudnnCreateTensorDescriptor"},
		{&s.conv, "cudnnCreateConvolutionDescriptor"}} {
		if err := call(d.name, uintptr(unsafe.Pointer(&h.mem.words[0]))); err != nil {
			return err
		}
		*d.to = uintptr(h.mem.words[0])
	}
	images := func(d uintptr, t DType, n, c, hh, w int) error {
		return call("cudnnSetTensor4dDescriptorEx", d, uintptr(t), uintptr(n), uintptr(c), uintptr(hh), uintptr(w),
			uintptr(hh*w*c), 1, uintptr(w*c), uintptr(c))
	}
	if int64(c.H)*int64(c.W)*int64(c.C) > math.MaxInt32 {
		return fmt.Errorf("cudnn: %s: an image has more than %d elements: %w", what, math.MaxInt32, ErrNotSupported)
	}
	if err := images(s.x, c.In, c.N, c.C, c.H, c.W); err != nil {
		return err
	}
	p, q := c.OutSize()
	if err := images(s.y, c.Out, c.N, c.K, p, q); err != nil {
		return err
	}
	if err := call("cudnnSetFilter4dDescriptor", s.w, uintptr(c.Weight), formatNHWC, uintptr(c.K), uintptr(c.C), uintptr(c.R), uintptr(c.S)); err != nil {
		return err
	}
	if err := call("cudnnSetConvolution2dDescriptor", s.conv, uintptr(c.Pad[0]), uintptr(c.Pad[1]), uintptr(c.Stride[0]), uintptr(c.Stride[1]), 1, 1,
		crossCorrelation, uintptr(c.Compute)); err != nil {
		return err
	}
	math := uintptr(mathTensorCore)
	if c.In == Float32 {
		math = mathFMA
		if c.TF32 {
			math = mathDefault
		}
	}
	return call("cudnnSetConvolutionMathType", s.conv, math)
}

// release destroys the descriptors after their last user.
func (s *legacyShared) release() error {
	if s.users--; s.users > 0 {
		return nil
	}
	var errs []error
	for i, d := range [...]uintptr{s.x, s.w, s.y, s.conv} {
		if d == 0 {
			continue
		}
		if status := Status(s.h.caller.Call(s.destroy[i], d)); status != 0 {
			errs = append(errs, s.h.failed("the destruction", "a descriptor of the older interface", status))
		}
	}
	return errors.Join(errs...)
}

func (p *legacyPlan) close() error { return p.shared.release() }

// run enqueues: y = alpha·conv(x, w) + beta·y with alpha 1, and likewise the gradients.
func (p *legacyPlan) run(s drv.Stream, workspace, x, w, y drv.Ptr) error {
	h := p.h
	if err := h.setStreamTo(s); err != nil {
		return err
	}
	a, b, result := x, w, y
	switch p.op {
	case BackwardData:
		a, b, result = w, y, x
	case BackwardWeight:
		a, b, result = x, y, w
	}
	da, db, dresult := p.shared.order(p.op)
	alpha, beta := &h.mem.words[0], &h.mem.words[1]
	*alpha, *beta = uint64(math.Float32bits(1)), uint64(math.Float32bits(p.beta))
	status := Status(h.caller.Call(p.run1, h.handle, uintptr(unsafe.Pointer(alpha)), da, uintptr(a), db, uintptr(b), p.shared.conv,
		uintptr(p.algorithm), uintptr(workspace), uintptr(p.workspace), uintptr(unsafe.Pointer(beta)), dresult, uintptr(result)))
	if status != 0 {
		return h.failed(legacyPasses[p.op].run, p.name+" for "+p.what, status)
	}
	return nil
}
