package cublaslt

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A Plan is one algorithm for a product.
type Plan struct {
	shared    *shared
	matmul    Matmul
	algorithm *[8]uint64
	name      string
	workspace int64
	closed    bool
}

// alignment in bytes is what pointers must have, and all that algorithms may count on: their
// default is 256.
const alignment = 16

// Plans gives the algorithms for a product, in the heuristics' order: the first is the library's
// guess.
func (h *Handle) Plans(m Matmul) (plans []*Plan, err error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if h.handle == 0 {
		return nil, fmt.Errorf("cublaslt: %v: the handle is closed", m)
	}
	s, err := h.describe(m)
	if err != nil {
		return nil, err
	}
	// The plans hold it from here on.
	defer func() {
		err = errors.Join(err, s.release())
		if err != nil {
			for _, p := range plans {
				p.Close()
			}
			plans = nil
		}
	}()
	n, err := h.heuristics(s)
	if err != nil {
		return nil, err
	}
	for i := range n {
		r := &h.mem.results[i]
		if r.state != 0 {
			continue
		}
		p := &Plan{shared: s, matmul: m, algorithm: new([8]uint64), workspace: int64(r.workspace)}
		*p.algorithm = r.algorithm
		p.name = h.algorithmName(p.algorithm)
		s.users++
		plans = append(plans, p)
	}
	if len(plans) == 0 {
		return nil, fmt.Errorf("cublaslt: %s: the heuristics know no algorithm: %w", s.what, ErrNotSupported)
	}
	return plans, nil
}

// preference makes the preferences of our questions.
func (h *Handle) preference(what string) (preference uintptr, err error) {
	if err := h.create(h.fn.preferenceCreate, "cublasLtMatmulPreferenceCreate", what, &preference); err != nil {
		return 0, err
	}
	for _, v := range []struct {
		attribute int
		value     uint64
		size      int
	}{
		{preferenceMaxWorkspace, uint64(h.MaxWorkspace), 8},
		{preferenceReductionSchemes, reductionComputeType, 4},
		{preferenceAlignmentA, alignment, 4},
		{preferenceAlignmentB, alignment, 4},
		{preferenceAlignmentC, alignment, 4},
		{preferenceAlignmentD, alignment, 4},
	} {
		if err := h.set(h.fn.preferenceSet, "cublasLtMatmulPreferenceSetAttribute", what, preference, v.attribute, v.value, v.size); err != nil {
			return 0, errors.Join(err, h.call(h.fn.preferenceDestroy, "cublasLtMatmulPreferenceDestroy", what, preference))
		}
	}
	return preference, nil
}

// heuristics fills h.mem.results.
func (h *Handle) heuristics(s *shared) (n int, err error) {
	preference, err := h.preference(s.what)
	if err != nil {
		return 0, err
	}
	defer func() {
		err = errors.Join(err, h.call(h.fn.preferenceDestroy, "cublasLtMatmulPreferenceDestroy", s.what, preference))
	}()
	count := &h.mem.words[1]
	*count = 0
	clear(h.mem.results[:])
	a, b, d := s.layouts[0], s.layouts[1], s.layouts[2]
	err = h.call(h.fn.getHeuristic, "cublasLtMatmulAlgoGetHeuristic", s.what, h.handle, s.desc, a, b, d, d, preference, maxAlgorithms,
		uintptr(unsafe.Pointer(&h.mem.results[0])), uintptr(unsafe.Pointer(count)))
	return min(int(int32(*count)), maxAlgorithms), err
}

// algorithmName lists what tells algorithms apart.
func (h *Handle) algorithmName(algorithm *[8]uint64) string {
	var parts []string
	for _, c := range []struct {
		name      string
		attribute int
	}{{"algo", algoConfigID}, {"tile", algoConfigTile}, {"stages", algoConfigStages}, {"splitk", algoConfigSplitK}, {"reduction", algoConfigReduction},
		{"swizzle", algoConfigSwizzle}} {
		h.mem.words[0], h.mem.words[1] = 0, 0
		status := Status(h.caller.Call(h.fn.algoConfigGet, uintptr(unsafe.Pointer(algorithm)), uintptr(c.attribute),
			uintptr(unsafe.Pointer(&h.mem.words[0])), 4, uintptr(unsafe.Pointer(&h.mem.words[1]))))
		if status == 0 { // not every algorithm has every attribute
			parts = append(parts, fmt.Sprintf("%s%d", c.name, uint32(h.mem.words[0])))
		}
	}
	return strings.Join(parts, " ")
}

// Matmul is the question.
func (p *Plan) Matmul() Matmul { return p.matmul }

// Engine names the algorithm and its settings.
func (p *Plan) Engine() string { return p.name }

// Workspace is the bytes of scratch memory that Run wants.
func (p *Plan) Workspace() int64 { return p.workspace }

// Close releases the plan. Its work must be done, graphs captured from it included.
func (p *Plan) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	return p.shared.release()
}

// Run enqueues the product on s. bias is the vector that Bias reads or BiasGrad writes, else not
// used. workspace has at least Workspace bytes, aligned to 256, and nothing else may use it until
// the work is done.
func (p *Plan) Run(s drv.Stream, workspace, a, b, bias, d drv.Ptr) error {
	m, h := p.matmul, p.shared.h
	switch {
	case p.closed:
		return fmt.Errorf("cublaslt: run %s for %s: the plan is closed", p.name, p.shared.what)
	case p.workspace > 0 && workspace == 0:
		return fmt.Errorf("cublaslt: run %s for %s: there is no workspace, and the plan wants %d bytes", p.name, p.shared.what, p.workspace)
	}
	for i, ptr := range [...]drv.Ptr{a, b, d, bias} {
		if (i < 3 || m.Bias || m.BiasGrad) && (ptr == 0 || ptr%alignment != 0) {
			return fmt.Errorf("cublaslt: run %s for %s: %s lies at %#x, want an address that is not 0 and a multiple of %d", p.name, p.shared.what,
				[...]string{"A", "B", "D", "the bias"}[i], uint64(ptr), alignment)
		}
	}
	if m.Bias || m.BiasGrad {
		if err := p.shared.setBias(bias); err != nil {
			return err
		}
	}
	one, zero := uintptr(unsafe.Pointer(&h.mem.scalars[0])), uintptr(unsafe.Pointer(&h.mem.scalars[1]))
	beta := zero
	if m.Accumulate {
		beta = one
	}
	l := p.shared.layouts
	// The operands are exchanged: see the package comment.
	return h.call(h.fn.matmul, "cublasLtMatmul", p.name+" for "+p.shared.what, h.handle, p.shared.desc, one, uintptr(b), l[0], uintptr(a), l[1],
		beta, uintptr(d), l[2], uintptr(d), l[2], uintptr(unsafe.Pointer(p.algorithm)), uintptr(workspace), uintptr(p.workspace), uintptr(s))
}
