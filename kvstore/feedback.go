package kvstore

import (
	"math"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/kvstore/internal/buffer"
)

// A feedback holds the residuals of a key's compressed pushes, one for each device whose gradient
// is compressed by itself.
//
// A residual is what all pushes so far have left out, in the units of the gradient. It means
// something only under the compression that made it: another one begins with zeros.
type feedback struct {
	// using is the compression that made the residuals (Compression.forResiduals).
	using     Compression
	residuals [][]float32
	// scratch, code and top are memory for encoding.
	scratch []float32
	code    buffer.Aligned
	top     f32.TopK
}

// residual returns device i's residual, zeros at first and after a change of compression.
func (f *feedback) residual(c Compression, i, n int) []float32 {
	if c = c.forResiduals(); f.using != c {
		*f = feedback{using: c}
	}
	for len(f.residuals) <= i {
		f.residuals = append(f.residuals, make([]float32, n))
	}
	return f.residuals[i]
}

// sumOver adds up grads into sum, each compressed and decoded by itself. Those that c cannot encode
// are added as they are, with their residuals. It reports whether all were encoded.
func (f *feedback) sumOver(native bool, c Compression, sum []float32, grads [][]float32, norms []float64, round uint64) (all bool) {
	clear(sum)
	all = true
	scratch := buffer.Grow(&f.scratch, len(sum))
	for i, g := range grads {
		var residual []float32
		if c.feedback() {
			residual = f.residual(c, i, len(sum))
		}
		c := c.at(norms[i], len(sum))
		switch {
		case c.canEncode(residual, g, norms[i], round):
			addDecoded(native, c, sum, c.encode(&f.code, native, &f.top, residual, g), scratch)
			continue
		case residual != nil:
			f32.AddTo(sum, residual)
			clear(residual)
		}
		f32.AddTo(sum, g)
		all = false
	}
	return all
}

// norm is the Euclidean norm; it is not finite if any value is not.
func norm(x []float32) float64 { return math.Sqrt(f32.Squares(x)) }

// sumOf returns the sum of grads: grads[0] itself if it is the only one, else in *memory.
func sumOf(grads [][]float32, memory *[]float32) []float32 {
	if len(grads) == 1 {
		return grads[0]
	}
	sum := buffer.Grow(memory, len(grads[0]))
	f32.Add(sum, grads[0], grads[1])
	for _, g := range grads[2:] {
		f32.AddTo(sum, g)
	}
	return sum
}
