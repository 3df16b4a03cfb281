package f32

import "unsafe"

// WinogradInput is Bᵀ·d·B.
func (t *Tile) WinogradInput(a *WinogradArgs) {
	if t.path == AVX512 {
		winogradInputAVX512((*byte)(unsafe.Pointer(a)))
		return
	}
	winogradPortable(a, winogradB)
}

// WinogradWeight is G·g·Gᵀ.
func (t *Tile) WinogradWeight(a *WinogradArgs) {
	if t.path == AVX512 {
		winogradWeightAVX512((*byte)(unsafe.Pointer(a)))
		return
	}
	winogradPortable(a, winogradG)
}

// WinogradOutput is Aᵀ·m·A.
func (t *Tile) WinogradOutput(a *WinogradArgs) {
	if t.path == AVX512 {
		winogradOutputAVX512((*byte)(unsafe.Pointer(a)))
		return
	}
	winogradPortable(a, winogradA)
}

// WinogradGradient is G·g·Gᵀ of F(3×3, 2×2).
func (t *Tile) WinogradGradient(a *WinogradArgs) {
	if t.path == AVX512 {
		winogradGradientAVX512((*byte)(unsafe.Pointer(a)))
		return
	}
	winogradPortable(a, winogradGradientG)
}

// WinogradTaps is Aᵀ·m·A of F(3×3, 2×2).
func (t *Tile) WinogradTaps(a *WinogradArgs) {
	if t.path == AVX512 {
		winogradTapsAVX512((*byte)(unsafe.Pointer(a)))
		return
	}
	winogradPortable(a, winogradTapsA)
}

// Winograd4Input is Bᵀ·d·B of F(4×4, 3×3).
func (t *Tile) Winograd4Input(a *WinogradArgs) {
	if t.path == AVX512 {
		winograd4InputAVX512((*byte)(unsafe.Pointer(a)))
		return
	}
	winogradPortable(a, winograd4B)
}

// Winograd4Weight is G·g·Gᵀ of F(4×4, 3×3).
func (t *Tile) Winograd4Weight(a *WinogradArgs) {
	if t.path == AVX512 {
		winograd4WeightAVX512((*byte)(unsafe.Pointer(a)))
		return
	}
	winogradPortable(a, winograd4G)
}

// Winograd4Output is Aᵀ·m·A of F(4×4, 3×3).
func (t *Tile) Winograd4Output(a *WinogradArgs) {
	if t.path == AVX512 {
		winograd4OutputAVX512((*byte)(unsafe.Pointer(a)))
		return
	}
	winogradPortable(a, winograd4A)
}
