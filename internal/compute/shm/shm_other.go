//go:build !linux

package shm

import "os"

// words has no memory to give here.
func words(int, []int) []uint64 { return nil }

var pageSize = uintptr(os.Getpagesize())

// Discard has no such memory.
func Discard([]byte) bool { return false }

// Pinned has no such memory.
func Pinned([]byte) {}
