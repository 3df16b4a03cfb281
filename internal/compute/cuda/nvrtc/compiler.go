package nvrtc

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
)

// Results, under the names of nvrtc.h.
const (
	success       = 0 // NVRTC_SUCCESS
	invalidOption = 5 // NVRTC_ERROR_INVALID_OPTION
)

// A Compiler is the open library. Its methods may be called together; they take turns.
type Compiler struct {
	lib     *dl.Library
	version dl.Version

	create, compile, destroy, logSize, log, cubinSize, cubin, ptxSize, ptx, errorString uintptr

	mu sync.Mutex

	// caller is guarded by mu, as are the results.
	caller dl.Caller

	out [2]uintptr
}

// A Program is what is compiled.
type Program struct {
	// Name is the source's, in messages.
	Name string

	Source string

	// Headers has texts of what is included, by the name under which it is.
	Headers map[string]string

	Compute [2]int   // the GPU's compute capability
	Options []string // such as "--std=c++17"
}

// An Error says what the compiler did not take.
type Error struct {
	Call string
	Code int32
	Name string // "NVRTC_ERROR_COMPILATION"

	// Log is what the compiler said, with lines of the source.
	Log string
}

func (e *Error) Error() string {
	s := fmt.Sprintf("nvrtc: %s: %s (%d)", e.Call, e.Name, e.Code)
	if e.Log != "" {
		s += "\n" + e.Log
	}
	return s
}

// Open makes the library ready.
func Open(lib *dl.Library) (*Compiler, error) {
	c := &Compiler{lib: lib}
	var version uintptr
	for _, f := range []struct {
		at   *uintptr
		name string
	}{
		{&version, "nvrtcVersion"}, {&c.create, "nvrtcCreateProgram"}, {&c.compile, "nvrtcCompileProgram"}, {&c.destroy, "nvrtcDestroyProgram"},
		{&c.logSize, "nvrtcGetProgramLogSize"}, {&c.log, "nvrtcGetProgramLog"}, {&c.cubinSize, "nvrtcGetCUBINSize"}, {&c.cubin, "nvrtcGetCUBIN"},
		{&c.ptxSize, "nvrtcGetPTXSize"}, {&c.ptx, "nvrtcGetPTX"}, {&c.errorString, "nvrtcGetErrorString"},
	} {
		address, err := lib.Symbol(f.name)
		if err != nil {
			return nil, fmt.Errorf("nvrtc: open: %w", err)
		}
		*f.at = address
	}
	if code := int32(c.caller.Call(version, c.outAddress(0), c.outAddress(1))); code != success {
		return nil, c.newError("nvrtcVersion", code)
	}
	c.version = dl.Version{Major: int(int32(c.out[0])), Minor: int(int32(c.out[1]))}
	return c, nil
}

// Version returns the library's version: that of the CUDA it belongs to.
func (c *Compiler) Version() (major, minor int) { return c.version.Major, c.version.Minor }

// Compile returns machine code for the GPU or, where the library does not know GPUs of its kind,
// PTX for the newest that it knows before it. log is what the compiler said beside errors, "" for
// nothing.
func (c *Compiler) Compile(p Program) (image []byte, log string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	arch := fmt.Sprintf("%d%d", p.Compute[0], p.Compute[1])
	image, log, err = c.try(p, "sm_"+arch, c.cubinSize, c.cubin)
	if e, ok := errors.AsType[*Error](err); ok && e.Code == invalidOption && strings.Contains(e.Log, "architecture") {
		return c.try(p, "compute_90", c.ptxSize, c.ptx)
	}
	return image, log, err
}

// try compiles for one architecture, with c.mu held.
func (c *Compiler) try(p Program, arch string, size, get uintptr) ([]byte, string, error) {
	// All memory that C sees is of the heap, and alive until the calls are done.
	mem := &texts{}
	program := mem.array(1)
	defer runtime.KeepAlive(mem)
	names := slices.Sorted(maps.Keys(p.Headers))
	var headers []string
	for _, name := range names {
		headers = append(headers, p.Headers[name])
	}
	call := fmt.Sprintf("nvrtcCreateProgram of %q, %d bytes", p.Name, len(p.Source))
	code := int32(c.caller.Call(c.create, address(program), mem.text(p.Source), mem.text(p.Name), uintptr(len(names)), mem.list(headers), mem.list(names)))
	if code != success {
		return nil, "", c.newError(call, code)
	}
	defer func() { c.caller.Call(c.destroy, address(program)) }()
	options := append([]string{"--gpu-architecture=" + arch}, p.Options...)
	code = int32(c.caller.Call(c.compile, program[0], uintptr(len(options)), mem.list(options)))
	said, err := c.read(program[0], c.logSize, c.log, "nvrtcGetProgramLog")
	if err != nil {
		return nil, "", err
	}
	log := strings.TrimSpace(string(bytes.TrimRight(said, "\x00")))
	if code != success {
		e := c.newError(fmt.Sprintf("nvrtcCompileProgram of %q with %q", p.Name, options), code)
		e.Log = log
		return nil, "", e
	}
	image, err := c.read(program[0], size, get, "nvrtcGetCUBIN or nvrtcGetPTX")
	if err != nil {
		return nil, "", err
	}
	if len(image) == 0 {
		return nil, "", fmt.Errorf("nvrtc: compile %q for %s: the library gave no code", p.Name, arch)
	}
	return image, log, nil
}

// read asks for a result's size and then for the result.
func (c *Compiler) read(program, size, get uintptr, what string) ([]byte, error) {
	if code := int32(c.caller.Call(size, program, c.outAddress(0))); code != success {
		return nil, c.newError(what+"'s size", code)
	}
	if c.out[0] == 0 {
		return nil, nil
	}
	if c.out[0] > maxResult {
		return nil, fmt.Errorf("nvrtc: %s: got %d bytes, want at most %d", what, c.out[0], maxResult)
	}
	result := make([]byte, c.out[0])
	if code := int32(c.caller.Call(get, program, uintptr(unsafe.Pointer(&result[0])))); code != success {
		return nil, c.newError(what, code)
	}
	return result, nil
}

const maxResult = 1 << 30

func (c *Compiler) newError(call string, code int32) *Error {
	return &Error{Call: call, Code: code, Name: dl.Text(c.caller.Call(c.errorString, uintptr(code)))}
}

// outAddress is where a call leaves a number; c keeps it.
func (c *Compiler) outAddress(i int) uintptr {
	c.out[i] = 0
	return uintptr(unsafe.Pointer(&c.out[i]))
}
