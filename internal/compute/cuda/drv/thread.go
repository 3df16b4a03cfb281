package drv

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
)

// closeTimeout bounds how long Close waits for a call that is under way.
const closeTimeout = 20 * time.Second

// A Thread is an OS thread that a GPU's context is current on. Do runs functions on it, one at a
// time.
type Thread struct {
	driver  *Driver
	ordinal int

	// id is the OS thread's. It is set before start returns.
	id int

	work chan *task

	// used has tasks for another time.
	used chan *task

	quit chan struct{} // closed by Close
	done chan struct{} // closed when the thread has ended
	once sync.Once

	// now is the call that may block. It is nil between such calls.
	now atomic.Pointer[string]

	// What follows is used on the thread alone. It is handed to C, so it lies in the heap.
	caller dl.Caller
	out    unsafe.Pointer // receives an address of the host
	num    [2]uintptr     // receives handles, sizes and other numbers

	// hold keeps a caller's memory from moving and from being collected during a call.
	hold unsafe.Pointer

	extra  [5]uintptr // a launch's list of extras
	bytes  uintptr    // the size of its parameters
	params [maxParams]byte
}

// maxParams is the most bytes of parameters that a kernel takes.
const maxParams = 4096

// A task is a function for a thread to run.
type task struct {
	f      func() error
	err    error
	done   chan struct{}
	caught any  // what f panicked with
	exited bool // f ended its goroutine (runtime.Goexit)
}

// newTask returns one that was used before, if there is one.
func (t *Thread) newTask() *task {
	select {
	case w := <-t.used:
		return w
	default:
		return &task{done: make(chan struct{}, 1)}
	}
}

// putTask keeps a task for another time, if there is room.
func (t *Thread) putTask(w *task) {
	*w = task{done: w.done}
	select {
	case t.used <- w:
	default:
	}
}

// start runs a thread; begin is done first on it, and its error ends it. end is done last.
func start(d *Driver, ordinal int, begin, end func(*Thread) error) (*Thread, error) {
	t := &Thread{driver: d, ordinal: ordinal, work: make(chan *task), used: make(chan *task, 8), quit: make(chan struct{}), done: make(chan struct{})}
	begun := make(chan error)
	go func() {
		defer close(t.done)
		// The thread stays locked: it ends with its goroutine, so no other goroutine meets
		// its context.
		runtime.LockOSThread()
		t.id = threadID()
		err := begin(t)
		begun <- err
		if err != nil {
			return
		}
		defer end(t)
		for {
			select {
			case w := <-t.work:
				t.run(w)
			case <-t.quit:
				return
			}
		}
	}()
	if err := <-begun; err != nil {
		return nil, err
	}
	return t, nil
}

// run does one task. If f ends the goroutine, the thread ends too.
func (t *Thread) run(w *task) {
	finished := false
	defer func() {
		if !finished {
			w.caught = recover()
			w.exited = w.caught == nil
		}
		w.done <- struct{}{}
	}()
	w.err = w.f()
	finished = true
}

// Do runs f on the thread and returns its error. It waits for its turn; calls from f itself run at
// once. A panic of f goes on in the caller.
func (t *Thread) Do(f func() error) error {
	if t.id != 0 && t.id == threadID() {
		// The thread is locked to the goroutine that we are on.
		return f()
	}
	w := t.newTask()
	w.f = f
	select {
	case t.work <- w:
	case <-t.quit:
		return t.closedError()
	case <-t.done:
		return t.closedError()
	}
	<-w.done
	err, caught, exited := w.err, w.caught, w.exited
	t.putTask(w)
	switch {
	case caught != nil:
		panic(caught)
	case exited:
		return fmt.Errorf("drv: do on cuda:%d: the function ended its goroutine: the thread is %w", t.ordinal, ErrClosed)
	}
	return err
}

// Close ends the thread after the task it is at. Calls of Do that wait answer ErrClosed. Closing
// twice is harmless.
func (t *Thread) Close() error {
	t.once.Do(func() { close(t.quit) })
	if t.id != 0 && t.id == threadID() {
		// A function given to Do calls this, and the thread ends when it returns.
		return nil
	}
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-t.done:
		return nil
	case <-timer.C:
		what := "a function given to Do"
		if now := t.now.Load(); now != nil {
			what = *now
		}
		return fmt.Errorf("drv: close a thread of cuda:%d: %s has not returned for %v", t.ordinal, what, closeTimeout)
	}
}

func (t *Thread) closedError() error {
	return fmt.Errorf("drv: do on cuda:%d: the thread is %w", t.ordinal, ErrClosed)
}

// call calls a function of the driver. Memory of Go among the arguments is t's own, or held by it.
func (t *Thread) call(fn uintptr, args ...uintptr) int32 {
	return int32(t.caller.CallKept(fn, args...))
}

// blocking calls a function that may take long; Close names it if it never returns.
func (t *Thread) blocking(name *string, fn uintptr, args ...uintptr) int32 {
	t.now.Store(name)
	code := t.call(fn, args...)
	t.now.Store(nil)
	return code
}

// number is where a call leaves a handle or a number; t keeps it. It is cleared first, as the call
// may set a part of it.
func (t *Thread) number() uintptr {
	t.num[0] = 0
	return uintptr(unsafe.Pointer(&t.num[0]))
}

// fail makes the error of a call.
func (t *Thread) fail(code int32, format string, args ...any) error {
	return t.driver.newError(&t.caller, fmt.Sprintf(format, args...)+fmt.Sprintf(" on cuda:%d", t.ordinal), code)
}

var errNotPositive = errors.New("want a number of bytes above 0")
