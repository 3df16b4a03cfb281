//go:build !cgo || !linux

package gpustat

// A Reader reads nothing in this build.
type Reader struct{}

// Open answers ErrBuild.
func Open() (*Reader, error) { return nil, ErrBuild }

// Read answers ErrBuild.
func (*Reader) Read() ([]GPU, error) { return nil, ErrBuild }

// Close does nothing.
func (*Reader) Close() error { return nil }
