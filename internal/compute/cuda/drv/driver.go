package drv

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
)

// leastVersion is the oldest CUDA version that a driver must know.
const leastVersion = 12_000

// A Driver is the open libcuda. Its methods may be called together.
type Driver struct {
	lib     *dl.Library
	f       functions
	version int // 1000·major + 10·minor

	mu     sync.Mutex
	caller dl.Caller // guarded by mu
	out    *[256]byte
}

// Open starts the driver. A machine without a GPU that it could use answers ErrNoDevice.
func Open(lib *dl.Library) (*Driver, error) {
	d := &Driver{lib: lib, out: new([256]byte)}
	if err := d.f.resolve(lib); err != nil {
		return nil, fmt.Errorf("drv: open: %w; CUDA %d.%d or newer is needed", err, leastVersion/1000, leastVersion%1000/10)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if code := d.call(d.f.cuInit, 0); code != success {
		err := d.newError(&d.caller, "cuInit of "+lib.Path, code)
		err.Text += reason(code)
		return nil, err
	}
	out := (*int32)(unsafe.Pointer(d.out))
	if code := d.call(d.f.cuDriverGetVersion, uintptr(unsafe.Pointer(out))); code != success {
		return nil, d.newError(&d.caller, "cuDriverGetVersion of "+lib.Path, code)
	}
	d.version = int(*out)
	if d.version < leastVersion {
		major, minor := d.Version()
		return nil, fmt.Errorf("drv: open %s: %w: it runs CUDA %d.%d, and %d.%d or newer is needed", lib.Path, ErrTooOld,
			major, minor, leastVersion/1000, leastVersion%1000/10)
	}
	return d, nil
}

// reason is what may be behind an answer of cuInit.
func reason(code int32) string {
	switch code {
	case errorStubLibrary:
		return "; the file is a stub for linkers, not the driver"
	case errorSystemMismatch:
		return "; the library and the kernel's module are of different versions"
	case errorNotCompatible:
		return "; the file is of CUDA's package for forward compatibility, which this GPU does not take: PARAGON_CUDA_PATH names the driver's own"
	case errorUnknown:
		return "; often a file such as /dev/nvidia-uvm is missing, or this user may not open it"
	case errorNoDevice:
		if visible, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); set {
			return fmt.Sprintf("; CUDA_VISIBLE_DEVICES is %q", visible)
		}
	}
	return ""
}

// Version returns the newest version of CUDA that the driver runs.
func (d *Driver) Version() (major, minor int) { return d.version / 1000, d.version % 1000 / 10 }

// Library returns the library that is open.
func (d *Driver) Library() *dl.Library { return d.lib }

// call calls a function with d.mu held.
//
//go:uintptrescapes
func (d *Driver) call(fn uintptr, args ...uintptr) int32 {
	return int32(d.caller.Call(fn, args...))
}

// newError asks the library for the name and text of a code.
func (d *Driver) newError(caller *dl.Caller, call string, code int32) *Error {
	e := &Error{Call: call, Code: code, Name: fmt.Sprintf("CUresult %d", code), Text: "the driver has no text for it"}
	out := new(uintptr)
	if int32(caller.Call(d.f.cuGetErrorName, uintptr(code), uintptr(unsafe.Pointer(out)))) == success && *out != 0 {
		e.Name = dl.Text(*out)
	}
	*out = 0
	if int32(caller.Call(d.f.cuGetErrorString, uintptr(code), uintptr(unsafe.Pointer(out)))) == success && *out != 0 {
		e.Text = dl.Text(*out)
	}
	return e
}
