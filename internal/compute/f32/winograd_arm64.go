package f32

import "unsafe"

// WinogradInput is Bᵀ·d·B.
func (t *Tile) WinogradInput(a *WinogradArgs) {
	if t.path == NEON {
		winogradInputNEON((*byte)(unsafe.Pointer(a)))
		return
	}
	winogradPortable(a, winogradB)
}

// WinogradWeight is G·g·Gᵀ.
func (t *Tile) WinogradWeight(a *WinogradArgs) {
	if t.path == NEON {
		winogradWeightNEON((*byte)(unsafe.Pointer(a)))
		return
	}
	winogradPortable(a, winogradG)
}

// WinogradOutput is Aᵀ·m·A.
func (t *Tile) WinogradOutput(a *WinogradArgs) {
	if t.path == NEON {
		winogradOutputNEON((*byte)(unsafe.Pointer(a)))
		return
	}
	winogradPortable(a, winogradA)
}

// WinogradGradient is G·g·Gᵀ of F(3×3, 2×2).
func (t *Tile) WinogradGradient(a *WinogradArgs) {
	if t.path == NEON {
		winogradGradientNEON((*byte)(unsafe.Pointer(a)))
		return
	}
	winogradPortable(a, winogradGradientG)
}

// WinogradTaps is Aᵀ·m·A of F(3×3, 2×2).
func (t *Tile) WinogradTaps(a *WinogradArgs) {
	if t.path == NEON {
		winogradTapsNEON((*byte)(unsafe.Pointer(a)))
		return
	}
	winogradPortable(a, winogradTapsA)
}
