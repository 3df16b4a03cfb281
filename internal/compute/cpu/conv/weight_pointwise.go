package conv

import "github.com/paragon-train/paragon/internal/compute/f32"

// foldPixels is the most pixels that images of one pixel become together.
const foldPixels = 32

// pointwise is true if each output pixel has one input pixel, its own: a 1×1 convolution with
// stride 1. Then dw[k,c] = Σ over pixels of dy[k]·x[c] is symmetric in x and dy.
func (s Shape) pointwise() bool {
	return s.R == 1 && s.S == 1 && s.StrideH == 1 && s.StrideW == 1 && s.PadH == 0 && s.PadW == 0 && s.MoreH == 0 && s.MoreW == 0
}

// swapped is the shape in which x and dy change places: a tile's rows are then output channels and
// its columns input channels, as they lie in dw, and nothing has to be transposed.
func (s Shape) swapped() Shape {
	s.C, s.K = s.K, s.C
	return s
}

// folded is a pointwise shape with images of one pixel put together to fewer, larger ones, which
// are packed in fewer calls. An even number of images stays even, for tiles that read pairs of
// them.
func (s Shape) folded() Shape {
	if s.H*s.W > 1 {
		return s
	}
	for n := min(s.N, foldPixels); n > 1; n-- {
		if s.N%n == 0 && (s.N%2 != 0 || s.N/n%2 == 0) {
			s.N, s.H = s.N/n, n
			break
		}
	}
	return s
}

// swapPays reports whether tiles are about as full when x and dy change places.
func swapPays(s Shape, t *f32.Tile) bool { return s.pointwise() && s.C >= t.Cols }
