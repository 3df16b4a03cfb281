package cublaslt

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A Version is what cublasLtGetVersion says: 130001 is 13.0.1.
type Version int

// MinVersion is the oldest that will do: CUDA 12's, whose attributes this package has.
const MinVersion Version = 120000

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100) }

// DefaultMaxWorkspace is the most workspace in bytes that a plan may want, unless
// Handle.MaxWorkspace says otherwise: what the library's own documentation advises for the largest
// products of Hopper.
const DefaultMaxWorkspace = 32 << 20

// A Handle is an open library on one device, a cublasLtHandle_t. See the package comment for who
// may call it.
type Handle struct {
	// MaxWorkspace bounds the workspace in bytes. Open sets it to DefaultMaxWorkspace.
	MaxWorkspace int64

	ctx     *drv.Context
	lib     *dl.Library
	caller  dl.Caller
	fn      functions
	handle  uintptr
	version Version
	alive   int // questions whose descriptors exist, for tests
	mem     *memory
}

// memory is what arguments lie in while C reads and writes them: the Go heap, which does not move.
type memory struct {
	words   [4]uint64
	results [maxAlgorithms]result
	scalars [2]float32 // 1 and 0
}

// maxAlgorithms is how many the heuristics are asked for.
const maxAlgorithms = 8

// result is a cublasLtMatmulHeuristicResult_t: 96 bytes.
type result struct {
	algorithm [8]uint64
	workspace uint64
	state     int32
	waves     float32
	reserved  [4]int32
}

type functions struct {
	getVersion, create, destroy, matmul, getHeuristic, algoConfigGet uintptr
	descCreate, descDestroy, descSet, layoutCreate, layoutDestroy    uintptr
	preferenceCreate, preferenceDestroy, preferenceSet               uintptr
}

// Open starts the library on the device of ctx. An older library than MinVersion answers
// ErrVersion.
func Open(lib *dl.Library, ctx *drv.Context) (*Handle, error) {
	h := &Handle{MaxWorkspace: DefaultMaxWorkspace, ctx: ctx, lib: lib, mem: &memory{scalars: [2]float32{1, 0}}}
	if err := h.resolve(lib); err != nil {
		return nil, err
	}
	if err := h.create(h.fn.create, "cublasLtCreate", lib.Path, &h.handle); err != nil {
		return nil, err
	}
	return h, nil
}

// resolve looks the functions up and asks for the version.
func (h *Handle) resolve(lib *dl.Library) error {
	for _, f := range []struct {
		address *uintptr
		name    string
	}{
		{&h.fn.getVersion, "cublasLtGetVersion"},
		{&h.fn.create, "cublasLtCreate"},
		{&h.fn.destroy, "cublasLtDestroy"},
		{&h.fn.matmul, "cublasLtMatmul"},
		{&h.fn.getHeuristic, "cublasLtMatmulAlgoGetHeuristic"},
		{&h.fn.algoConfigGet, "cublasLtMatmulAlgoConfigGetAttribute"},
		{&h.fn.descCreate, "cublasLtMatmulDescCreate"},
		{&h.fn.descDestroy, "cublasLtMatmulDescDestroy"},
		{&h.fn.descSet, "cublasLtMatmulDescSetAttribute"},
		{&h.fn.layoutCreate, "cublasLtMatrixLayoutCreate"},
		{&h.fn.layoutDestroy, "cublasLtMatrixLayoutDestroy"},
		{&h.fn.preferenceCreate, "cublasLtMatmulPreferenceCreate"},
		{&h.fn.preferenceDestroy, "cublasLtMatmulPreferenceDestroy"},
		{&h.fn.preferenceSet, "cublasLtMatmulPreferenceSetAttribute"},
	} {
		address, err := lib.Symbol(f.name)
		if err != nil {
			return fmt.Errorf("cublaslt: open: %w", err)
		}
		*f.address = address
	}
	h.version = Version(h.caller.Call(h.fn.getVersion))
	if h.version < MinVersion {
		return fmt.Errorf("cublaslt: open %s: %w: got %v, want %v or later", lib.Path, ErrVersion, h.version, MinVersion)
	}
	return nil
}

// Version is the library's.
func (h *Handle) Version() Version { return h.version }

// Path is the file of the library.
func (h *Handle) Path() string { return h.lib.Path }

// Close destroys the handle. Plans must be closed before.
func (h *Handle) Close() error {
	if h.handle == 0 {
		return nil
	}
	err := h.call(h.fn.destroy, "cublasLtDestroy", h.lib.Path, h.handle)
	h.handle = 0
	return err
}

func (h *Handle) call(fn uintptr, name, object string, args ...uintptr) error {
	if status := Status(h.caller.Call(fn, args...)); status != 0 {
		return &Error{Call: name, Object: object, Status: status}
	}
	return nil
}

// create calls a function whose first argument receives a handle.
func (h *Handle) create(fn uintptr, name, object string, to *uintptr, args ...uintptr) error {
	h.mem.words[0] = 0
	if err := h.call(fn, name, object, append([]uintptr{uintptr(unsafe.Pointer(&h.mem.words[0]))}, args...)...); err != nil {
		return err
	}
	*to = uintptr(h.mem.words[0])
	return nil
}

// set sets an attribute of 4 or 8 bytes.
func (h *Handle) set(fn uintptr, name, object string, d uintptr, attribute int, value uint64, size int) error {
	// Little-endian numbers have the low bytes first.
	h.mem.words[0] = value
	return h.call(fn, name, fmt.Sprintf("attribute %d of %s", attribute, object), d, uintptr(attribute), uintptr(unsafe.Pointer(&h.mem.words[0])), uintptr(size))
}

// A question's descriptors, shared by its plans.
type shared struct {
	h     *Handle
	users int
	what  string
	desc  uintptr

	// layouts are those of the library's A, B and D.
	layouts [3]uintptr

	bias drv.Ptr // what desc points to now
}

func (h *Handle) describe(m Matmul) (s *shared, err error) {
	s = &shared{h: h, users: 1, what: m.String()}
	h.alive++
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
			s = nil
		}
	}()
	if err = h.create(h.fn.descCreate, "cublasLtMatmulDescCreate", s.what, &s.desc, m.compute(), uintptr(Float32)); err != nil {
		return s, err
	}
	flag := map[bool]uint64{true: 1}
	type setting struct {
		attribute int
		value     uint64
	}
	settings := []setting{{descTransA, flag[m.TransB]}, {descTransB, flag[m.TransA]}, {descEpilogue, uint64(m.epilogue())}}
	if m.Bias || m.BiasGrad {
		settings = append(settings, setting{descBiasDataType, uint64(m.BiasType)})
	}
	for _, v := range settings {
		if err = h.set(h.fn.descSet, "cublasLtMatmulDescSetAttribute", s.what, s.desc, v.attribute, v.value, 4); err != nil {
			return s, err
		}
	}
	if m.Bias || m.BiasGrad {
		// Without an address the heuristics may find that nothing fits. Run gives the true
		// one.
		if err = s.setBias(biasUnknown); err != nil {
			return s, err
		}
	}
	for i, l := range m.layouts() {
		if err = h.create(h.fn.layoutCreate, "cublasLtMatrixLayoutCreate", s.what, &s.layouts[i], uintptr(l.t), uintptr(l.rows), uintptr(l.cols), uintptr(l.ld)); err != nil {
			return s, err
		}
	}
	return s, nil
}

// biasUnknown stands for an address of the usual alignment.
const biasUnknown drv.Ptr = 256

// setBias makes the vector that of later calls.
func (s *shared) setBias(bias drv.Ptr) error {
	if s.bias == bias {
		return nil
	}
	if err := s.h.set(s.h.fn.descSet, "cublasLtMatmulDescSetAttribute", s.what, s.desc, descBiasPointer, uint64(bias), 8); err != nil {
		return err
	}
	s.bias = bias
	return nil
}

// release destroys the descriptors after their last user.
func (s *shared) release() error {
	if s.users--; s.users > 0 {
		return nil
	}
	s.h.alive--
	var errs []error
	for _, l := range s.layouts {
		if l != 0 {
			errs = append(errs, s.h.call(s.h.fn.layoutDestroy, "cublasLtMatrixLayoutDestroy", s.what, l))
		}
	}
	if s.desc != 0 {
		errs = append(errs, s.h.call(s.h.fn.descDestroy, "cublasLtMatmulDescDestroy", s.what, s.desc))
	}
	return errors.Join(errs...)
}
