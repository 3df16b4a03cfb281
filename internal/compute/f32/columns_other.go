//go:build !amd64 && !arm64

package f32

func maxColumnsWide(Path, []float32, []float32, float32) bool                           { return false }
func expColumnsWide(Path, []float32, []float32, []float32, float32) bool                { return false }
func expColumnsGradWide(Path, []float32, []float32, []float32, []float32, float32) bool { return false }
func scaleColumnsWide(Path, []float32, []float32) bool                                  { return false }
