//go:build !amd64

package f32

func keepWide(Path, []float32, uint64, uint64, uint64, float32) int { return 0 }

func dropWide(Path, []float32, []float32, uint64, uint64, float32) int { return 0 }
