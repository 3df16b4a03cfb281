package bridge

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/paragon-train/paragon/internal/compute/shm"
	"github.com/paragon-train/paragon/kvstore"
)

// block is what memory with a file belongs to.
type block = *shm.Block

// fileOf returns the descriptor of a region's memory.
func fileOf(p []byte) (block, int, error) {
	b, offset, ok := shm.Find(p)
	if !ok || offset != 0 {
		return nil, -1, fmt.Errorf("bridge: memory of %d bytes: %w: the system gives no memory with a file (memfd_create), or too many are open", len(p), kvstore.ErrUnsupported)
	}
	return b, b.File(), nil
}

// renew gives a slot new memory if a server has kept a part of it, and returns a descriptor of that,
// which the caller closes; -1: none has.
func renew(r *region, slot int) (fd int, err error) {
	p := bytesOf(r.each[slot])
	if _, _, ok := shm.Find(p); ok {
		return -1, nil
	}
	r.renewing.Lock()
	defer r.renewing.Unlock()
	if _, _, ok := shm.Find(p); ok {
		return -1, nil
	}
	b, err := r.block.Renew(p)
	if err != nil {
		return -1, err
	}
	return unix.FcntlInt(uintptr(b.File()), unix.F_DUPFD_CLOEXEC, 0)
}

// machineMemory is how many bytes of memory the machine has.
func machineMemory() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 1 << 40
	}
	return uint64(info.Totalram) * uint64(info.Unit) //nolint:unconvert // Totalram has 32 bits on 386
}
