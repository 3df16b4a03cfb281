package f32

// WinogradArgs is a call of one of the transforms of Winograd's F(2×2, 3×3) (Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks", 2015): a 3×3 convolution of 2×2 pixels by 16
// multiplications in place of 36,
//
//	y = Aᵀ·[(G·g·Gᵀ) ⊙ (Bᵀ·d·B)]·A
//
// Each pointer is to Count values (channels), a multiple of 16 and not 0, of one element of a
// matrix, row by row: 4×4 pixels d to 16 values; 3×3 taps g to 16 values; 16 values to 2×2 pixels
// y.
//
// The gradient of the taps is the 3×3 correlation of 4×4 pixels with 2×2 gradients, F(3×3, 2×2):
// the same Bᵀ·d·B; G of 2×2 gradients g to 16 values, here without its factors of a half, which Aᵀ
// has instead, since it is applied once to the sum over all pixels; 16 values to 3×3 taps.
//
// F(4×4, 3×3) makes 4×4 pixels of 6×6 by 36 multiplications in place of 144, in the same way: d and
// the values are 6×6, y is 4×4. Its matrices have larger numbers, so that rounding counts for more.
//
// The layout is known to the assembly.
type WinogradArgs struct {
	Dst, Src [36]*float32
	Count    int

	// Add is for output only: 1 to add to y, 0 to overwrite it.
	Add uint64
}

// CanWinograd reports whether the path has the transforms in assembly; the others are correct but
// no gain.
func (t *Tile) CanWinograd() bool { return t.path != Portable }

// CanWinograd4 is CanWinograd of F(4×4, 3×3).
func (t *Tile) CanWinograd4() bool { return t.path == AVX512 || t.path == AVX2 }
