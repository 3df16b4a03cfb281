package f32

// SumTo sets every one of dsts to the sum of srcs, of which there is at least one, added in their
// order. Where the processor can it writes past the caches, without reading dsts first: for results
// that are larger than the caches, or that other threads read next. The first of dsts may be the
// first of srcs, and each other one any of srcs; otherwise they must not overlap.
func SumTo(dsts, srcs [][]float32) {
	if !checkStreams("SumTo", dsts, srcs) {
		return
	}
	from := 0
	if kernels.sumTo != nil {
		from = kernels.sumTo(dsts, srcs)
	}
	for n := len(dsts[0]); from < n; from += streamPart {
		to := min(from+streamPart, n)
		sumPart(dsts[0][from:to], srcs, from)
		for _, dst := range dsts[1:] {
			copy(dst[from:to], dsts[0][from:to])
		}
	}
}

// MeanTo is SumTo of quotients: every one of dsts is the sum of srcs divided by a number. The bits
// are those of Add and Divide.
func MeanTo(dsts, srcs [][]float32, by float32) {
	if !checkStreams("MeanTo", dsts, srcs) {
		return
	}
	from := 0
	if kernels.meanTo != nil {
		from = kernels.meanTo(dsts, srcs, by)
	}
	for n := len(dsts[0]); from < n; from += streamPart {
		to := min(from+streamPart, n)
		mean := dsts[0][from:to]
		sumPart(mean, srcs, from)
		kernels.divide(mean, by, mean)
		for _, dst := range dsts[1:] {
			copy(dst[from:to], mean)
		}
	}
}

// streamPart values stay in the first-level cache.
const streamPart = 1024

// checkStreams panics unless all have one length, and reports whether there is anything to write.
func checkStreams(name string, dsts, srcs [][]float32) bool {
	if len(dsts) == 0 {
		return false
	}
	for _, list := range [][][]float32{dsts, srcs} {
		for _, x := range list {
			same2(name, len(dsts[0]), len(dsts[0]), len(x))
		}
	}
	return true
}

// sumPart sets sum to the sum of the values of srcs from an index on.
func sumPart(sum []float32, srcs [][]float32, from int) {
	to := from + len(sum)
	if len(srcs) == 1 {
		copy(sum, srcs[0][from:to])
		return
	}
	kernels.add(sum, srcs[0][from:to], srcs[1][from:to])
	for _, src := range srcs[2:] {
		kernels.add(sum, sum, src[from:to])
	}
}
