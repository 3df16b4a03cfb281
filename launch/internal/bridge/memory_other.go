//go:build !linux

package bridge

import (
	"fmt"

	"github.com/paragon-train/paragon/kvstore"
)

// block is nothing here.
type block = struct{}

// renew has nothing to do: nothing is lent.
func renew(*region, int) (int, error) { return -1, nil }

// fileOf has no files here.
func fileOf(p []byte) (block, int, error) {
	return block{}, -1, fmt.Errorf("bridge: memory of %d bytes: %w: memory that two processes share is of Linux", len(p), kvstore.ErrUnsupported)
}

// machineMemory is 0: there is none to give.
func machineMemory() uint64 { return 0 }
