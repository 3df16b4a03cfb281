//go:build !linux

package shm

// words has no memory to give here.
func words(int) []uint64 { return nil }
