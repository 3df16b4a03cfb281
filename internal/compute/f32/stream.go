package f32

// SumTo sets every one of dsts to the sum of srcs, of which there is at least one, added in their
// order. Where the processor can it writes past the caches, without reading dsts first: for results
// that are larger than the caches, or that other threads read next. The first of dsts may be the
// first of srcs, and each other one any of srcs; otherwise they must not overlap.
func SumTo(dsts, srcs [][]float32) {
	if len(dsts) == 0 {
		return
	}
	for _, list := range [][][]float32{dsts, srcs} {
		for _, x := range list {
			same2("SumTo", len(dsts[0]), len(dsts[0]), len(x))
		}
	}
	from := 0
	if kernels.sumTo != nil {
		from = kernels.sumTo(dsts, srcs)
	}

	// As many values stay in the first-level cache.
	for n := len(dsts[0]); from < n; from += 1024 {
		to := min(from+1024, n)
		sum := dsts[0][from:to]
		if len(srcs) == 1 {
			copy(sum, srcs[0][from:to])
		} else {
			kernels.add(sum, srcs[0][from:to], srcs[1][from:to])
		}
		for i := 2; i < len(srcs); i++ {
			kernels.add(sum, sum, srcs[i][from:to])
		}
		for _, dst := range dsts[1:] {
			copy(dst[from:to], sum)
		}
	}
}
