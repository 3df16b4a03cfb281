//go:build linux && (amd64 || arm64) && !android && !faketime && !nocuda

package dl

import (
	"runtime"

	"github.com/ebitengine/purego"
)

// MaxArgs is the most arguments that a call takes.
const MaxArgs = 32

// A Caller calls C functions. It may be used by one goroutine at a time.
type Caller struct {
	args [MaxArgs]uintptr
}

// Call calls the C function at address fn. Arguments are integers and addresses, no floating point;
// the result is the integer result, of which a function that returns an int sets the low 32 bits
// alone: compare int32(result). A pointer written as uintptr(unsafe.Pointer(p)) in the argument
// list stays alive until Call returns, for which Call allocates the list.
//
//go:uintptrescapes
func (c *Caller) Call(fn uintptr, args ...uintptr) uintptr {
	n := copy(c.args[:], args)
	r, _, _ := purego.SyscallN(fn, c.args[:n]...)
	return r
}

// CallKept is Call where nothing of the arguments needs to be kept: there are no pointers to Go's
// memory among them, or only such to memory of the heap that something else points to until
// CallKept returns. It allocates nothing.
func (c *Caller) CallKept(fn uintptr, args ...uintptr) uintptr {
	n := copy(c.args[:], args)
	r, _, _ := purego.SyscallN(fn, c.args[:n]...)
	return r
}

// Supported is nil where libraries can be opened, else ErrBuild with the reason.
func Supported() error { return nil }

// open opens the library at a path, or of a bare name wherever the system's loader finds it.
func open(path string) (uintptr, error) {
	// The reason of an error is kept per thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

// symbol returns a function's address, 0 where there is none.
func symbol(handle uintptr, name string) uintptr {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	address, err := purego.Dlsym(handle, name)
	if err != nil {
		return 0
	}
	return address
}
