//go:build !amd64 && !arm64

package f32

func hasPath(p Path) bool { return p == Portable }

func kernelsFor(Path) *kernelSet { return &portable }
