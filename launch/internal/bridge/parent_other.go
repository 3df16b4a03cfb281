//go:build !linux

package bridge

import (
	"fmt"
	"runtime"

	"github.com/paragon-train/paragon/kvstore"
)

// watchParent cannot be here.
func watchParent(int, func()) (stop func(), err error) {
	return nil, fmt.Errorf("bridge: %w: the Python client is for Linux, and this is %s", kvstore.ErrUnsupported, runtime.GOOS)
}

// switchStderr does nothing: the bridge ends.
func switchStderr(int) error { return nil }
