//go:build !linux

package f32

// requestTiles is known for Linux alone.
func requestTiles() bool { return false }
