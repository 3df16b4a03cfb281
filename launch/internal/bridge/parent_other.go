//go:build !linux

package bridge

import (
	"fmt"
	"runtime"

	"github.com/paragon-train/paragon/kvstore"
)

// supported says that this system has no bridge.
func supported() error {
	return fmt.Errorf("bridge: %w: the Python client is for Linux, and this is %s", kvstore.ErrUnsupported, runtime.GOOS)
}

// watchParent has nothing to watch: the bridge has ended.
func watchParent(int, func()) (stop func(), err error) { return nil, supported() }

// switchStderr does nothing: the bridge has ended.
func switchStderr(int) error { return nil }
