//go:build !linux

package bridge

import (
	"fmt"

	"github.com/paragon-train/paragon/kvstore"
)

// fileOf has no files here.
func fileOf(p []byte) (int, error) {
	return -1, fmt.Errorf("bridge: memory of %d bytes: %w: memory that two processes share is of Linux", len(p), kvstore.ErrUnsupported)
}

// machineMemory is 0: there is none to give.
func machineMemory() uint64 { return 0 }
