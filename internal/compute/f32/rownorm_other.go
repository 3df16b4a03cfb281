//go:build !amd64 && !arm64

package f32

// vectorLanes is 0: there are no vectors.
func vectorLanes(Path) int { return 0 }

func rowMomentsWide(Path, []float32, float32) (sum, squares float32) { return 0, 0 }

func normRowWide(Path, []float32, []float32, []float32, []float32, float32, float32) {}

func normRowSumsWide(Path, []float32, []float32, []float32, []float32, []float32, float32, float32) (g, gx float32) {
	return 0, 0
}

func normRowGradWide(Path, []float32, []float32, []float32, []float32, []float32, float32, float32, float32, float32) {
}
