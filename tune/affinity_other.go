//go:build !linux

package tune

import (
	"runtime"
	"syscall"
)

// setAffinity does nothing: processors are only counted.
func setAffinity([]int) error { return nil }

func withProcess(_ []int, f func(attr *syscall.SysProcAttr) error) error {
	return f(&syscall.SysProcAttr{Setpgid: true})
}

func ownCPUs() []int { return firstCPUs(runtime.NumCPU()) }
