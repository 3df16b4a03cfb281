package main

import (
	"github.com/mmcloughlin/avo/reg"

	. "github.com/mmcloughlin/avo/build"
)

// An isa is one of the two instruction sets that kernels are written for.
type isa struct {
	name  string // suffix of function names
	lanes int    // float32 in a vector
	vec   func() reg.VecVirtual
}

var (
	avx2   = isa{"AVX2", 8, YMM}
	avx512 = isa{"AVX512", 16, ZMM}
)

func (s isa) bytes() int { return 4 * s.lanes }

// zero clears a vector.
func (s isa) zero(v reg.VecVirtual) {
	if s.lanes == 16 {
		VPXORD(v, v, v)
	} else {
		VXORPS(v, v, v)
	}
}
