//go:build !amd64

package f32

func squaresOverWide(Path, *[numSums]float64, []float32, Precondition) int      { return 0 }
func addMeasuredWide(Path, []float32, []float32, Precondition, *AddSquares) int { return 0 }
