package main

import (
	"github.com/mmcloughlin/avo/reg"

	. "github.com/mmcloughlin/avo/build"
)

// An isa is one of the instruction sets that kernels are written for.
type isa struct {
	name  string // suffix of function names
	lanes int    // float32 in a vector
	vec   func() reg.VecVirtual
	pairs bool // see avx512bf16
	half  bool // see avx512half
}

var (
	avx2   = isa{name: "AVX2", lanes: 8, vec: YMM}
	avx512 = isa{name: "AVX512", lanes: 16, vec: ZMM}
)

func (s isa) bytes() int { return 4 * s.lanes }

// zero clears a vector.
func (s isa) zero(v reg.Register) {
	if s.lanes == 16 {
		VPXORD(v, v, v)
	} else {
		VXORPS(v, v, v)
	}
}
