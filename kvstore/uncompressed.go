package kvstore

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
)

// A shard that its compression cannot encode is sent uncompressed, as float32: see Compression.

// maxQuanta is the largest value, in quanta, that is still encoded. Each push takes one quantum
// from the residual, so a value of this size needs as many pushes to drain, and from 2²⁴ quanta on,
// subtracting one would not change a float32 at all.
const maxQuanta = 1024

// residualRounds is how often a residual's size is checked: it also grows where gradients stay
// above a quantum. The check reads the whole residual, so it is not made in every round.
const residualRounds = 64

// fp16Overflow is the smallest number that float16 rounds to infinity.
const fp16Overflow = 65520

// quantum is the step of 2bit and 1bit, whose codes stand for plus, minus or (2bit) no quantum.
func (c Compression) quantum() float32 {
	if c.Type == "1bit" {
		return 1
	}
	return c.Threshold
}

// canEncode reports whether c can encode a gradient with this Euclidean norm plus a residual, which
// is nil without error feedback.
func (c Compression) canEncode(residual, grad []float32, norm float64, round uint64) bool {
	switch {
	case c.quantised():
		limit := maxQuanta * c.quantum()
		return !reaches(grad, norm, limit) && (round%residualRounds != residualRounds-1 || !reaches(residual, math.Inf(1), limit))
	case c.Type == "fp16":
		// NaN and infinity have codes, and stay what they are.
		return !(norm <= math.MaxFloat64) || !reaches(grad, norm, fp16Overflow)
	}
	return true
}

// reaches reports whether any value of x has a magnitude of limit or more. norm is x's, or infinite
// if it is not known.
func reaches(x []float32, norm float64, limit float32) bool {
	if norm < float64(limit) {
		return false
	}
	// Where the norm of a part is below limit, so are all its values. A part is small enough
	// for that to be the usual case.
	const part = 256
	for len(x) > 0 {
		p := x[:min(part, len(x))]
		x = x[len(p):]
		if math.Sqrt(f32.Squares(p)) < float64(limit) {
			continue
		}
		for _, v := range p {
			if !(v < limit && v > -limit) {
				return true
			}
		}
	}
	return false
}

// checkFinite returns an error for a gradient that is not finite, if the compression cannot encode
// it. from is the index of the gradient's first value in the key.
func (c Compression) checkFinite(verb string, k *key, grad []float32, from, device int) error {
	if !c.quantised() {
		return nil
	}
	what := "value"
	if device >= 0 {
		what = fmt.Sprintf("device %d: value", device)
	}
	for i, v := range grad {
		if v-v != 0 {
			return keyError(verb, k.name, ErrNotFinite, "%s %d is %v, which %s cannot carry; nothing was pushed. Find where it comes from, or let "+
				"WithGuard leave such gradients out", what, from+i, v, c.Type)
		}
	}
	return nil
}

// perWeight is the norm that the guard judges: divided by the contribution's weight.
func perWeight(norm float64, weight float32) float64 {
	if weight > 0 {
		return norm / float64(weight)
	}
	return norm
}
