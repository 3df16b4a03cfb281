package tune_test

import "syscall"

// shutSockets ends the connections of this process. Handles are multiples of four.
func shutSockets() {
	for h := syscall.Handle(4); h < 4096; h += 4 {
		_ = syscall.Shutdown(h, syscall.SHUT_RDWR) // which is an error for what is no socket
	}
}
