//go:build !linux || !amd64

package amxtest

import (
	"runtime"
	"testing"
)

func runTraced(t *testing.T, _ any, _ bool) {
	t.Skipf("no tile unit is emulated on %s/%s: want linux/amd64", runtime.GOOS, runtime.GOARCH)
}
