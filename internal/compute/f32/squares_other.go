//go:build !amd64 && !arm64

package f32

func squareSumWide(Path, *SquareSum, []float32) int                             { return 0 }
func squaresOverWide(Path, *SquareSum, []float32, Precondition) int             { return 0 }
func addMeasuredWide(Path, []float32, []float32, Precondition, *AddSquares) int { return 0 }

func (u *Update) adamMeasuredWide(Path, []float32, []float32, []float32, []float32, Precondition, *AddSquares) int {
	return 0
}
