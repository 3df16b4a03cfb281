//go:build !(linux && (amd64 || arm64) && !android && !faketime && !nocuda)

package dl

import (
	"fmt"
	"runtime"
)

// MaxArgs is the most arguments that a call takes.
const MaxArgs = 32

// A Caller calls C functions; this build has none.
type Caller struct{}

// Call is never reached: no library can be open.
func (c *Caller) Call(fn uintptr, args ...uintptr) uintptr {
	panic("dl: call: " + ErrBuild.Error())
}

// CallKept is never reached: no library can be open.
func (c *Caller) CallKept(fn uintptr, args ...uintptr) uintptr { return c.Call(fn) }

// Supported is nil where libraries can be opened, else ErrBuild with the reason.
func Supported() error {
	if runtime.GOOS == "linux" && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64") {
		return fmt.Errorf("%w: it was built with the tag nocuda", ErrBuild)
	}
	return fmt.Errorf("%w: it is for %s/%s, and CUDA is called on linux/amd64 and linux/arm64", ErrBuild, runtime.GOOS, runtime.GOARCH)
}

func open(path string) (uintptr, error) { return 0, Supported() }

func symbol(handle uintptr, name string) uintptr { return 0 }
