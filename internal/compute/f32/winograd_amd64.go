package f32

import "unsafe"

// WinogradInput is Bᵀ·d·B.
func (t *Tile) WinogradInput(a *WinogradArgs) {
	switch t.path {
	case AVX512:
		winogradInputAVX512((*byte)(unsafe.Pointer(a)))
	case AVX2:
		winogradInputAVX2((*byte)(unsafe.Pointer(a)))
	default:
		winogradPortable(a, winogradB)
	}
}

// WinogradWeight is G·g·Gᵀ.
func (t *Tile) WinogradWeight(a *WinogradArgs) {
	switch t.path {
	case AVX512:
		winogradWeightAVX512((*byte)(unsafe.Pointer(a)))
	case AVX2:
		winogradWeightAVX2((*byte)(unsafe.Pointer(a)))
	default:
		winogradPortable(a, winogradG)
	}
}

// WinogradOutput is Aᵀ·m·A.
func (t *Tile) WinogradOutput(a *WinogradArgs) {
	switch t.path {
	case AVX512:
		winogradOutputAVX512((*byte)(unsafe.Pointer(a)))
	case AVX2:
		winogradOutputAVX2((*byte)(unsafe.Pointer(a)))
	default:
		winogradPortable(a, winogradA)
	}
}

// WinogradGradient is G·g·Gᵀ of F(3×3, 2×2).
func (t *Tile) WinogradGradient(a *WinogradArgs) {
	switch t.path {
	case AVX512:
		winogradGradientAVX512((*byte)(unsafe.Pointer(a)))
	case AVX2:
		winogradGradientAVX2((*byte)(unsafe.Pointer(a)))
	default:
		winogradPortable(a, winogradGradientG)
	}
}

// WinogradTaps is Aᵀ·m·A of F(3×3, 2×2).
func (t *Tile) WinogradTaps(a *WinogradArgs) {
	switch t.path {
	case AVX512:
		winogradTapsAVX512((*byte)(unsafe.Pointer(a)))
	case AVX2:
		winogradTapsAVX2((*byte)(unsafe.Pointer(a)))
	default:
		winogradPortable(a, winogradTapsA)
	}
}

// Winograd4Input is Bᵀ·d·B of F(4×4, 3×3).
func (t *Tile) Winograd4Input(a *WinogradArgs) {
	switch t.path {
	case AVX512:
		winograd4InputAVX512((*byte)(unsafe.Pointer(a)))
	case AVX2:
		winograd4InputAVX2((*byte)(unsafe.Pointer(a)))
	default:
		winogradPortable(a, winograd4B)
	}
}

// Winograd4Weight is G·g·Gᵀ of F(4×4, 3×3).
func (t *Tile) Winograd4Weight(a *WinogradArgs) {
	switch t.path {
	case AVX512:
		winograd4WeightAVX512((*byte)(unsafe.Pointer(a)))
	case AVX2:
		winograd4WeightAVX2((*byte)(unsafe.Pointer(a)))
	default:
		winogradPortable(a, winograd4G)
	}
}

// Winograd4Output is Aᵀ·m·A of F(4×4, 3×3).
func (t *Tile) Winograd4Output(a *WinogradArgs) {
	switch t.path {
	case AVX512:
		winograd4OutputAVX512((*byte)(unsafe.Pointer(a)))
	case AVX2:
		winograd4OutputAVX2((*byte)(unsafe.Pointer(a)))
	default:
		winogradPortable(a, winograd4A)
	}
}
