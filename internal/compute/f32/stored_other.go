//go:build !amd64 && !arm64

package f32

func addHalf(_ Path, dst, a, b []uint16) { addHalfPortable(dst, a, b) }

func addToHalf(_ Path, dst []float32, x []uint16) { addToHalfPortable(dst, x) }

func reluHalf(_ Path, dst, x []uint16) { reluHalfPortable(dst, x) }

func reluGradHalf(_ Path, dx, dy, y []uint16) { reluGradHalfPortable(dx, dy, y) }

func maxWhichHalf(_ Path, out []uint16, chosen []uint8, x []uint16, which uint8) {
	maxWhichHalfPortable(out, chosen, x, which)
}

func (t *Tile) narrowRows(dst []uint16, at *[MaxTileRows]int, src []float32, rows, ncols int, add bool) {
	narrowRowsPortable(t.Cols, dst, at, src, rows, ncols, add)
}

// WinogradInputBFloat16 is WinogradInput of pixels that are stored as bfloat16; see Half.
func (t *Tile) WinogradInputBFloat16(a *WinogradArgs) { winogradInputHalfPortable(a, winogradB) }

// WinogradOutputBFloat16 is WinogradOutput to pixels that are stored as bfloat16; see Half.
func (t *Tile) WinogradOutputBFloat16(a *WinogradArgs) { winogradOutputHalfPortable(a, winogradA) }
