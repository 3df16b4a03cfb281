package cudnn

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A Version is what cudnnGetVersion says: 91900 is 9.19.0.
type Version int

// MinVersion is the oldest that will do: the first of the major version 9, whose attributes and
// statuses this package has.
const MinVersion Version = 90000

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100) }

// DefaultMaxWorkspace is the most workspace in bytes that a plan may want, unless
// Handle.MaxWorkspace says otherwise.
const DefaultMaxWorkspace = 1 << 30

// DefaultMaxCompiled is how many engines that the library compiles are offered of a question,
// unless Handle.MaxCompiled says otherwise.
const DefaultMaxCompiled = 4

// A Handle is an open library on one device, a cudnnHandle_t. See the package comment for who may
// call it.
type Handle struct {
	// MaxWorkspace leaves out plans that want more bytes of workspace. Open sets it to
	// DefaultMaxWorkspace.
	MaxWorkspace int64

	// MaxCompiled leaves out all but the first so many engines of a question that the library
	// compiles when a plan is built: each may take a second or more. Open sets it to
	// DefaultMaxCompiled.
	MaxCompiled int

	// Legacy adds plans of the older interface for convolutions, where the library still has
	// it. Open sets it.
	Legacy bool

	ctx     *drv.Context
	lib     *dl.Library
	caller  dl.Caller
	fn      functions
	handle  uintptr
	version Version
	stream  drv.Stream
	hasSet  bool           // whether stream was ever set
	graphs  map[*graph]int // how many plans use each
	packs   int            // variant packs alive, for tests
	trace   func(line string)
	mem     *memory
}

// memory is what arguments lie in while C reads and writes them: the Go heap, which does not move.
type memory struct {
	words [maxWords]uint64
	text  [1024]byte
}

// maxWords is the most elements of an array attribute.
const maxWords = 1024

// functions are the addresses of those that are always needed. Those of the older interface are
// looked up where they are used.
type functions struct {
	getVersion, create, destroy, setStream, getLastErrorString                         uintptr
	createDescriptor, destroyDescriptor, setAttribute, getAttribute, finalize, execute uintptr
}

// Open starts the library on the device of ctx. An older library than MinVersion answers
// ErrVersion.
func Open(lib *dl.Library, ctx *drv.Context) (*Handle, error) {
	h := &Handle{MaxWorkspace: DefaultMaxWorkspace, MaxCompiled: DefaultMaxCompiled, Legacy: true, ctx: ctx, lib: lib, graphs: make(map[*graph]int), mem: new(memory)}
	for _, f := range []struct {
		address *uintptr
		name    string
	}{
		{&h.fn.getVersion, "cudnnGetVersion"},
		{&h.fn.create, "cudnnCreate"},
		{&h.fn.destroy, "cudnnDestroy"},
		{&h.fn.setStream, "cudnnSetStream"},
		{&h.fn.createDescriptor, "cudnnBackendCreateDescriptor"},
		{&h.fn.destroyDescriptor, "cudnnBackendDestroyDescriptor"},
		{&h.fn.setAttribute, "cudnnBackendSetAttribute"},
		{&h.fn.getAttribute, "cudnnBackendGetAttribute"},
		{&h.fn.finalize, "cudnnBackendFinalize"},
		{&h.fn.execute, "cudnnBackendExecute"},
	} {
		address, err := lib.Symbol(f.name)
		if err != nil {
			return nil, fmt.Errorf("cudnn: open: %w", err)
		}
		*f.address = address
	}
	h.version = Version(h.caller.Call(h.fn.getVersion))
	if h.version < MinVersion || h.version/10000 != MinVersion/10000 {
		return nil, fmt.Errorf("cudnn: open %s: %w: got %v, want %v or later of the same major version", lib.Path, ErrVersion, h.version, MinVersion)
	}
	// Older than 9.0.0 it would not be there, so it comes after the version.
	address, err := lib.Symbol("cudnnGetLastErrorString")
	if err != nil {
		return nil, fmt.Errorf("cudnn: open: %w", err)
	}
	h.fn.getLastErrorString = address
	if status := Status(h.caller.Call(h.fn.create, uintptr(unsafe.Pointer(&h.mem.words[0])))); status != 0 {
		return nil, h.failed("cudnnCreate", lib.Path, status)
	}
	h.handle = uintptr(h.mem.words[0])
	return h, nil
}

// Version is the library's.
func (h *Handle) Version() Version { return h.version }

// Path is the file of the library.
func (h *Handle) Path() string { return h.lib.Path }

// Close destroys the handle and the graphs that plans still use. Plans are to be closed before:
// what else they have of the library stays until the process ends.
func (h *Handle) Close() error {
	if h.handle == 0 {
		return nil
	}
	var errs []error
	for g := range h.graphs {
		errs = append(errs, g.destroy())
	}
	if status := Status(h.caller.Call(h.fn.destroy, h.handle)); status != 0 {
		errs = append(errs, h.failed("cudnnDestroy", h.lib.Path, status))
	}
	h.handle = 0
	return errors.Join(errs...)
}

// failed makes the error of a call just made.
func (h *Handle) failed(call, object string, status Status) error {
	e := &Error{Call: call, Object: object, Status: status}
	if h.fn.getLastErrorString != 0 {
		text := h.mem.text[:]
		clear(text)
		h.caller.Call(h.fn.getLastErrorString, uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)-1))
		for i, b := range text {
			if b == 0 {
				e.Text = string(text[:i])
				break
			}
		}
	}
	return e
}

// setStreamTo makes s the stream of later calls.
func (h *Handle) setStreamTo(s drv.Stream) error {
	if h.hasSet && h.stream == s {
		return nil
	}
	if status := Status(h.caller.Call(h.fn.setStream, h.handle, uintptr(s))); status != 0 {
		return h.failed("cudnnSetStream", fmt.Sprintf("stream %#x", uintptr(s)), status)
	}
	h.stream, h.hasSet = s, true
	return nil
}
