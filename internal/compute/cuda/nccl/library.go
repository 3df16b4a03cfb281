package nccl

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
)

// A Type is the type of numbers that are moved (ncclDataType_t).
type Type int32

const (
	Int8     Type = 0 // ncclInt8
	Uint8    Type = 1 // ncclUint8
	Int32    Type = 2 // ncclInt32
	Float16  Type = 6 // ncclFloat16
	Float32  Type = 7 // ncclFloat32
	BFloat16 Type = 9 // ncclBfloat16
)

// An Op joins the numbers of several ranks (ncclRedOp_t).
type Op int32

const (
	Sum Op = 0 // ncclSum
	Max Op = 2 // ncclMax
	Min Op = 3 // ncclMin

	// Avg is the sum divided by the number of ranks, for floating point numbers.
	Avg Op = 4 // ncclAvg
)

const (
	success      = 0 // ncclSuccess
	inProgress   = 7 // ncclInProgress
	leastVersion = 21000
)

// A Library is the open NCCL.
type Library struct {
	lib     *dl.Library
	version dl.Version
	f       functions
}

type functions struct {
	getVersion, getErrorString, initAll, destroy, abort, asyncError, groupStart, groupEnd, allReduce, reduceScatter, allGather,
	broadcast uintptr

	// getLastError is that of newer libraries, and 0 otherwise.
	getLastError uintptr
}

// Open makes the library ready.
func Open(lib *dl.Library) (*Library, error) {
	l := &Library{lib: lib}
	for _, f := range []struct {
		at   *uintptr
		name string
	}{
		{&l.f.getVersion, "ncclGetVersion"}, {&l.f.getErrorString, "ncclGetErrorString"}, {&l.f.initAll, "ncclCommInitAll"},
		{&l.f.destroy, "ncclCommDestroy"}, {&l.f.abort, "ncclCommAbort"}, {&l.f.asyncError, "ncclCommGetAsyncError"},
		{&l.f.groupStart, "ncclGroupStart"}, {&l.f.groupEnd, "ncclGroupEnd"}, {&l.f.allReduce, "ncclAllReduce"},
		{&l.f.reduceScatter, "ncclReduceScatter"}, {&l.f.allGather, "ncclAllGather"}, {&l.f.broadcast, "ncclBroadcast"},
	} {
		address, err := lib.Symbol(f.name)
		if err != nil {
			return nil, fmt.Errorf("nccl: open: %w", err)
		}
		*f.at = address
	}
	if lib.Has("ncclGetLastError") {
		l.f.getLastError, _ = lib.Symbol("ncclGetLastError")
	}
	var caller dl.Caller
	version := new(int32)
	if code := int32(caller.Call(l.f.getVersion, uintptr(unsafe.Pointer(version)))); code != success {
		return nil, fmt.Errorf("nccl: ncclGetVersion of %s: code %d", lib.Path, code)
	}
	l.version = dl.EncodedVersion(dl.NCCL, int(*version))
	if *version < leastVersion {
		return nil, fmt.Errorf("nccl: open %s: %w: it is version %v, and 2.10 or newer is needed", lib.Path, dl.ErrTooOld, l.version)
	}
	return l, nil
}

// Version returns the library's version.
func (l *Library) Version() dl.Version { return l.version }

// An Error is an answer of NCCL other than success.
type Error struct {
	Call string
	Code int32
	Text string

	// Last is what the library says of the last thing that went wrong; empty: nothing did.
	Last string
}

func (e *Error) Error() string {
	s := fmt.Sprintf("nccl: %s: %s (%d)", e.Call, e.Text, e.Code)
	if e.Last != "" {
		s += ": " + e.Last
	}
	return s
}

// A Clique is GPUs of this process that work together. Err and Abort may be called beside
// everything else, from any thread.
type Clique struct {
	l       *Library
	devices []int
	comms   []uintptr

	// mem is that of the thread that asks for collectives.
	mem *memory

	mu     sync.Mutex // guards what follows
	watch  *memory
	closed bool

	// asked is the collective that was asked for last.
	asked string

	count int64
}

// memory is what C reads and writes, in the heap.
type memory struct {
	caller dl.Caller
	out    int32
}

// NewClique joins GPUs, each named once. Their contexts must be in use.
func (l *Library) NewClique(devices []int) (*Clique, error) {
	if len(devices) == 0 {
		return nil, fmt.Errorf("nccl: new clique: no devices")
	}
	c := &Clique{l: l, devices: devices, comms: make([]uintptr, len(devices)), mem: new(memory), watch: new(memory)}
	list := make([]int32, len(devices))
	for i, d := range devices {
		list[i] = int32(d)
	}
	code := c.mem.caller.Call(l.f.initAll, uintptr(unsafe.Pointer(&c.comms[0])), uintptr(len(devices)), uintptr(unsafe.Pointer(&list[0])))
	if int32(code) != success {
		return nil, c.newError(fmt.Sprintf("ncclCommInitAll of devices %v", devices), int32(code))
	}
	return c, nil
}

// Size returns the number of ranks.
func (c *Clique) Size() int { return len(c.comms) }

// Err returns what went wrong in the background, such as a link that broke: on which GPU, and what
// was asked for last. After an error only Abort helps.
func (c *Clique) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	for i, comm := range c.comms {
		code := int32(c.watch.caller.Call(c.l.f.asyncError, comm, uintptr(unsafe.Pointer(&c.watch.out))))
		if code == success {
			code = c.watch.out
		}
		if code == success || code == inProgress {
			continue
		}
		call := fmt.Sprintf("ncclCommGetAsyncError of rank %d (cuda:%d)", i, c.devices[i])
		if c.asked != "" {
			call += fmt.Sprintf(" behind %s of %d numbers", c.asked, c.count)
		}
		return c.l.newError(&c.watch.caller, call, code)
	}
	return nil
}

// Close gives the clique back. Collectives that are under way must have ended. Closing twice is
// harmless.
func (c *Clique) Close() error { return c.end("ncclCommDestroy", c.l.f.destroy) }

// Abort ends collectives that would wait for ever, also such as a thread is asking for at this
// moment, and gives the clique back.
func (c *Clique) Abort() error { return c.end("ncclCommAbort", c.l.f.abort) }

// end calls fn for all ranks, each on a thread of its own: one may wait for the others.
func (c *Clique) end(name string, fn uintptr) error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	errs := make([]error, len(c.comms))
	var all sync.WaitGroup
	for i, comm := range c.comms {
		all.Go(func() {
			// The lock is for good: the library leaves the thread with a GPU of its choice.
			runtime.LockOSThread()
			caller := new(dl.Caller)
			if code := int32(caller.Call(fn, comm)); code != success {
				errs[i] = c.l.newError(caller, fmt.Sprintf("%s of rank %d (cuda:%d)", name, i, c.devices[i]), code)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// note keeps what is asked for, and is false if the clique is closed.
func (c *Clique) note(name string, count int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.count = name, count
	return !c.closed
}

func (c *Clique) newError(call string, code int32) *Error {
	return c.l.newError(&c.mem.caller, call, code)
}

func (l *Library) newError(caller *dl.Caller, call string, code int32) *Error {
	e := &Error{Call: call, Code: code, Text: dl.Text(caller.Call(l.f.getErrorString, uintptr(code)))}
	if l.f.getLastError != 0 {
		e.Last = dl.Text(caller.Call(l.f.getLastError, 0))
	}
	return e
}
