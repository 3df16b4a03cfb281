//go:build race && linux

package transport

import "sync/atomic"

// The race detector does not see that bytes read from a ring were written before, because the two
// ends map the memory at two addresses. These functions tell it, as package syscall does for reads
// and writes of file descriptors.

var ringSync atomic.Uint32

func released() { ringSync.Add(1) }
func acquired() { ringSync.Load() }
