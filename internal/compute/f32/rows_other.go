//go:build !amd64 && !arm64

package f32

func gatherRowsWide(Path, []float32, []float32, []int64, int) bool       { return false }
func scatterRowsWide(Path, []float32, []float32, []int64, int) bool      { return false }
func addRowsWide(Path, []float32, []int64, []float32, []int64, int) bool { return false }
