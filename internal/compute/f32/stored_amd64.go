package f32

import "unsafe"

// On AVX2 all is plain Go.

func sumColumnsHalf(p Path, sum, sumSq []float32, x []uint16, c int) {
	n, rows := 0, (len(x)+c-1)/c
	if p == AVX512 {
		if n = len(sum) &^ 15; n > 0 {
			channelSumsHalfAVX512(&sum[0], &sumSq[0], &x[0], n, rows, 2*c)
		}
	}
	if n < len(sum) {
		channelSumsPortable(sum[n:], sumSq[n:], x[n:], c)
	}
}

func sumColumnsAroundHalf(p Path, sum, sumSq []float32, x []uint16, center []float32, c int) {
	n, rows := 0, (len(x)+c-1)/c
	if p == AVX512 {
		if n = len(sum) &^ 15; n > 0 {
			channelSumsAroundHalfAVX512(&sum[0], &sumSq[0], &x[0], &center[0], n, rows, 2*c)
		}
	}
	if n < len(sum) {
		channelSumsAroundPortable(sum[n:], sumSq[n:], x[n:], center[n:], c)
	}
}

func gradSumColumnsHalf(p Path, sumDy, sumDyX []float32, dy, x, y []uint16, center []float32, c int) {
	n, rows := 0, (len(x)+c-1)/c
	if p == AVX512 {
		n = len(sumDy) &^ 15
		switch {
		case n == 0:
		case y == nil:
			channelGradSumsHalfAVX512(&sumDy[0], &sumDyX[0], &dy[0], &x[0], &center[0], n, rows, 2*c)
		default:
			channelGradSumsMaskedHalfAVX512(&sumDy[0], &sumDyX[0], &dy[0], &x[0], &y[0], &center[0], n, rows, 2*c)
		}
	}
	if n < len(sumDy) {
		if y != nil {
			y = y[n:]
		}
		channelGradSumsPortable(sumDy[n:], sumDyX[n:], dy[n:], x[n:], y, center[n:], c)
	}
}

func scaleRowsHalf(y, x, res []uint16, scale, shift []float32, relu bool) {
	n, c := len(y), len(scale)

	// The calls are by name, as in scaleRows.
	switch {
	case res == nil && relu:
		scaleShiftReLUHalfAVX512(&y[0], &x[0], &scale[0], &shift[0], n, c)
	case res == nil:
		scaleShiftHalfAVX512(&y[0], &x[0], &scale[0], &shift[0], n, c)
	case relu:
		scaleShiftAddReLUHalfAVX512(&y[0], &x[0], &res[0], &scale[0], &shift[0], n, c)
	default:
		scaleShiftAddHalfAVX512(&y[0], &x[0], &res[0], &scale[0], &shift[0], n, c)
	}
}

func normGradRowsHalf(dx, dy, x, y []uint16, p, q, r []float32) {
	if y == nil {
		normGradHalfAVX512(&dx[0], &dy[0], &x[0], &p[0], &q[0], &r[0], len(dx), len(p))
	} else {
		normGradMaskedHalfAVX512(&dx[0], &dy[0], &x[0], &y[0], &p[0], &q[0], &r[0], len(dx), len(p))
	}
}

// wideHalves is how many of n values the assembly does.
func wideHalves(p Path, n int) int {
	if p != AVX512 {
		return 0
	}
	return n &^ 15
}

func addHalf(p Path, dst, a, b []uint16) {
	n := wideHalves(p, len(dst))
	if n > 0 {
		addHalfAVX512(&dst[0], &a[0], &b[0], n)
	}
	addHalfPortable(dst[n:], a[n:], b[n:])
}

func addToHalf(p Path, dst []float32, x []uint16) {
	n := wideHalves(p, len(dst))
	if n > 0 {
		addToHalfAVX512(&dst[0], &x[0], n)
	}
	addToHalfPortable(dst[n:], x[n:])
}

func reluHalf(p Path, dst, x []uint16) {
	n := wideHalves(p, len(dst))
	if n > 0 {
		reluHalfAVX512(&dst[0], &x[0], n)
	}
	reluHalfPortable(dst[n:], x[n:])
}

func reluGradHalf(p Path, dx, dy, y []uint16) {
	n := wideHalves(p, len(dx))
	if n > 0 {
		reluGradHalfAVX512(&dx[0], &dy[0], &y[0], n)
	}
	reluGradHalfPortable(dx[n:], dy[n:], y[n:])
}

func maxWhichHalf(p Path, out []uint16, chosen []uint8, x []uint16, which uint8) {
	n := wideHalves(p, len(out))
	if n > 0 {
		maxWhichHalfAVX512(&out[0], &chosen[0], &x[0], which, n)
	}
	maxWhichHalfPortable(out[n:], chosen[n:], x[n:], which)
}

func (t *Tile) narrowRows(dst []uint16, at *[MaxTileRows]int, src []float32, rows, ncols int, add bool) {
	switch {
	case t.path != AVX512 || rows == 0:
		narrowRowsPortable(t.Cols, dst, at, src, rows, ncols, add)
	case add:
		narrowRowsAddHalfAVX512(&dst[0], &at[0], &src[0], rows, 1<<ncols-1)
	default:
		narrowRowsHalfAVX512(&dst[0], &at[0], &src[0], rows, 1<<ncols-1)
	}
}

// WinogradInputBFloat16 is WinogradInput of pixels that are stored as bfloat16; see Half.
func (t *Tile) WinogradInputBFloat16(a *WinogradArgs) {
	switch t.path {
	case AVX512:
		winogradInputHalfAVX512((*byte)(unsafe.Pointer(a)))
	case AVX2:
		winogradInputHalfAVX2(a, false)
	default:
		winogradInputHalfPortable(a, winogradB)
	}
}

// WinogradOutputBFloat16 is WinogradOutput to pixels that are stored as bfloat16; see Half.
func (t *Tile) WinogradOutputBFloat16(a *WinogradArgs) {
	switch t.path {
	case AVX512:
		winogradOutputHalfAVX512((*byte)(unsafe.Pointer(a)))
	case AVX2:
		winogradOutputHalfAVX2(a, false)
	default:
		winogradOutputHalfPortable(a, winogradA)
	}
}

// Winograd4InputBFloat16 is Winograd4Input of pixels that are stored as bfloat16; see Half.
func (t *Tile) Winograd4InputBFloat16(a *WinogradArgs) {
	switch t.path {
	case AVX512:
		winograd4InputHalfAVX512((*byte)(unsafe.Pointer(a)))
	case AVX2:
		winogradInputHalfAVX2(a, true)
	default:
		winogradInputHalfPortable(a, winograd4B)
	}
}

// Winograd4OutputBFloat16 is Winograd4Output to pixels that are stored as bfloat16; see Half.
func (t *Tile) Winograd4OutputBFloat16(a *WinogradArgs) {
	switch t.path {
	case AVX512:
		winograd4OutputHalfAVX512((*byte)(unsafe.Pointer(a)))
	case AVX2:
		winogradOutputHalfAVX2(a, true)
	default:
		winogradOutputHalfPortable(a, winograd4A)
	}
}

// winogradInputHalfAVX2 and winogradOutputHalfAVX2 transform 16 channels at a time, by way of
// float32.
func winogradInputHalfAVX2(a *WinogradArgs, large bool) {
	var pixels [36][16]float32
	b := WinogradArgs{Count: 16}
	n := 16
	if large {
		n = 36
	}
	for c := 0; c < a.Count; c += 16 {
		for i := range n {
			fromBFloat16AVX2(&pixels[i][0], (*uint16)(unsafe.Add(unsafe.Pointer(a.Src[i]), 2*c)), 16)
			b.Src[i], b.Dst[i] = &pixels[i][0], (*float32)(unsafe.Add(unsafe.Pointer(a.Dst[i]), 4*c))
		}
		if large {
			winograd4InputAVX2((*byte)(unsafe.Pointer(&b)))
		} else {
			winogradInputAVX2((*byte)(unsafe.Pointer(&b)))
		}
	}
}

func winogradOutputHalfAVX2(a *WinogradArgs, large bool) {
	var pixels [16][16]float32
	b := WinogradArgs{Count: 16, Add: a.Add}
	n, pixel := 16, pixels[:4]
	if large {
		n, pixel = 36, pixels[:]
	}
	for c := 0; c < a.Count; c += 16 {
		for i := range n {
			b.Src[i] = (*float32)(unsafe.Add(unsafe.Pointer(a.Src[i]), 4*c))
		}
		for i := range pixel {
			b.Dst[i] = &pixel[i][0]
			if a.Add != 0 {
				fromBFloat16AVX2(&pixel[i][0], (*uint16)(unsafe.Add(unsafe.Pointer(a.Dst[i]), 2*c)), 16)
			}
		}
		if large {
			winograd4OutputAVX2((*byte)(unsafe.Pointer(&b)))
		} else {
			winogradOutputAVX2((*byte)(unsafe.Pointer(&b)))
		}
		for i := range pixel {
			toBFloat16AVX2((*uint16)(unsafe.Add(unsafe.Pointer(a.Dst[i]), 2*c)), &pixel[i][0], 16)
		}
	}
}
