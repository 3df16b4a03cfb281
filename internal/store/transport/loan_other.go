//go:build !linux

package transport

// lentMemory is what a call lends: nothing on this system.
type lentMemory struct{}

func (*lentMemory) forget()       {}
func (*lentMemory) hasOut() bool  { return false }
func (*lentMemory) detach() error { return nil }
