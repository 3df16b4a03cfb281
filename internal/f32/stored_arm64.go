package f32

func channelSumsHalf(_ Path, sum, sumSq []float32, x []uint16, c int) {
	channelSumsHalfPortable(sum, sumSq, x, c)
}

func channelGradSumsHalf(_ Path, sumDy, sumDyX []float32, dy, x, y []uint16, center []float32, c int) {
	channelGradSumsHalfPortable(sumDy, sumDyX, dy, x, y, center, c)
}

func scaleShiftHalf(_ Path, y, x, res []uint16, scale, shift []float32, relu bool) {
	scaleShiftHalfPortable(y, x, res, scale, shift, relu)
}

func normGradHalf(_ Path, dx, dy, x, y []uint16, p, q, r []float32) {
	normGradHalfPortable(dx, dy, x, y, p, q, r)
}

func addHalf(_ Path, dst, a, b []uint16) { addHalfPortable(dst, a, b) }

func addToHalf(_ Path, dst []float32, x []uint16) { addToHalfPortable(dst, x) }

func reluHalf(_ Path, dst, x []uint16) { reluHalfPortable(dst, x) }

func reluGradHalf(_ Path, dx, dy, y []uint16) { reluGradHalfPortable(dx, dy, y) }

func maxWhichHalf(_ Path, out []uint16, chosen []uint8, x []uint16, which uint8) {
	maxWhichHalfPortable(out, chosen, x, which)
}

func (t *Tile) pairRowsHalf(dst []float32, dstStride int, low, high []uint16, srcStride, rows, n, width int) {
	pairRowsHalfPortable(dst, dstStride, low, high, srcStride, rows, n, width)
}

func (t *Tile) narrowRows(dst []uint16, at *[MaxTileRows]int, src []float32, rows, ncols int, add bool) {
	narrowRowsPortable(t.Cols, dst, at, src, rows, ncols, add)
}

// WinogradInputBFloat16 is WinogradInput of pixels that are stored as bfloat16; see Half.
func (t *Tile) WinogradInputBFloat16(a *WinogradArgs) { winogradInputHalfPortable(a) }

// WinogradOutputBFloat16 is WinogradOutput to pixels that are stored as bfloat16; see Half.
func (t *Tile) WinogradOutputBFloat16(a *WinogradArgs) { winogradOutputHalfPortable(a) }
