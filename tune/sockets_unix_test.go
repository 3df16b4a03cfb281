//go:build unix

package tune_test

import "syscall"

// shutSockets ends the connections of this process.
func shutSockets() {
	for fd := range 64 {
		_ = syscall.Shutdown(fd, syscall.SHUT_RDWR) // which is an error for what is no socket
	}
}
