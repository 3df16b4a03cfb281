//go:build !amd64 && !arm64

package f32

func depthwiseWide(Path, *DepthwiseArgs, int) {}

func depthwiseWeightWide(Path, *DepthwiseArgs, int) {}
