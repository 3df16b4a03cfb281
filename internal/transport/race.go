//go:build race && linux

package transport

import "sync/atomic"

// The race detector does not see that what is read from a ring was written before, for the two ends have the memory at two
// addresses. It is told here, as package syscall tells it for reads and writes of descriptors.

var ringSync atomic.Uint32

func released() { ringSync.Add(1) }
func acquired() { ringSync.Load() }
