//go:build !linux

package f32

// requestTiles is known for Linux alone.
func requestTiles() (granted bool, err error) { return false, nil }
