package bridge

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/paragon-train/paragon/internal/compute/shm"
	"github.com/paragon-train/paragon/kvstore"
)

// fileOf returns the descriptor of a region's memory.
func fileOf(p []byte) (int, error) {
	b, offset, ok := shm.Find(p)
	if !ok || offset != 0 {
		return -1, fmt.Errorf("bridge: memory of %d bytes: %w: the system gives no memory with a file (memfd_create), or too many are open", len(p), kvstore.ErrUnsupported)
	}
	return b.File(), nil
}

// machineMemory is how many bytes of memory the machine has.
func machineMemory() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 1 << 40
	}
	return uint64(info.Totalram) * uint64(info.Unit) //nolint:unconvert // Totalram has 32 bits on 386
}
