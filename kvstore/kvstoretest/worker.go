package kvstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"unsafe"

	"github.com/paragon-train/paragon/kvstore"
)

// A Worker is what a case's program runs on. Its methods end the case when something is not as it
// should be.
type Worker struct {
	Store kvstore.Store
	Ctx   context.Context
	name  string
	// n is the number of workers, and r this one's rank.
	n, r int
	// edge is that of big arrays, which are square.
	edge int
	// perHost is how many workers add up before their sum is added to the others'.
	perHost int
}

type broken struct{ err error }

func (w *Worker) run(c Case) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case broken:
			err = r.err
		default:
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	if c.Optimizer != nil {
		w.ok(w.Store.SetOptimizer(w.Ctx, *c.Optimizer))
	}
	c.Run(w)
	// The next case may use other settings.
	w.barrier()
	return nil
}

func (w *Worker) failf(format string, args ...any) { panic(broken{fmt.Errorf(format, args...)}) }

// ok ends the case on an error.
func (w *Worker) ok(err error) {
	if err != nil {
		panic(broken{err})
	}
}

// is ends the case unless err is want.
func (w *Worker) is(what string, err, want error) {
	if !errors.Is(err, want) {
		w.failf("%s: got error %v, want %v", what, err, want)
	}
}

// key returns the job's name for a case's key.
func (w *Worker) key(format string, args ...any) string {
	return w.name + "/" + fmt.Sprintf(format, args...)
}

func (w *Worker) init(key string, value []float32) { w.ok(w.Store.Init(w.Ctx, key, value)) }

func (w *Worker) push(key string, grads ...[]float32) { w.ok(w.Store.Push(w.Ctx, key, grads...)) }

func (w *Worker) pull(key string, outs ...[]float32) { w.ok(w.Store.Pull(w.Ctx, key, outs...)) }

func (w *Worker) pushPull(key string, grads, outs [][]float32) {
	w.ok(w.Store.PushPull(w.Ctx, key, grads, outs))
}

func (w *Worker) barrier() { w.ok(w.Store.Barrier(w.Ctx)) }

func (w *Worker) compress(c kvstore.Compression) { w.ok(w.Store.SetCompression(w.Ctx, c)) }

func (w *Worker) pushRows(key string, rows []int64, grad []float32) {
	w.ok(w.Store.PushRows(w.Ctx, key, rows, grad))
}

func (w *Worker) pullRows(key string, rows []int64, out []float32) {
	w.ok(w.Store.PullRows(w.Ctx, key, rows, out))
}

// pulled returns a key's value, of n numbers.
func (w *Worker) pulled(key string, n int) []float32 {
	out := make([]float32, n)
	w.pull(key, out)
	return out
}

// all ends the case unless every number of got is exactly want.
func (w *Worker) all(what string, got []float32, want float32) {
	if n := len(got); n > 1 && got[0] == want && bytes.Equal(memory(got[1:]), memory(got[:n-1])) {
		// Bytes are compared faster than the loop below does.
		return
	}
	for i, g := range got {
		if g != want {
			w.failf("%s[%d]: got %v, want %v", what, i, g, want)
		}
	}
}

func memory(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// same ends the case unless got is exactly want.
func (w *Worker) same(what string, got, want []float32) {
	if len(got) != len(want) {
		w.failf("%s: got %d values, want %d", what, len(got), len(want))
	}
	if bytes.Equal(memory(got), memory(want)) {
		// Bytes are compared faster than the loop below does.
		return
	}
	for i, g := range got {
		if g != want[i] {
			w.failf("%s[%d]: got %v, want %v", what, i, g, want[i])
		}
	}
}

// near ends the case unless got is want to within tolerance.
func (w *Worker) near(what string, got, want []float32, tolerance float32) {
	if bytes.Equal(memory(got), memory(want)) {
		// Bytes are compared faster than the loop below does.
		return
	}
	if i := far(got, want, tolerance); i >= 0 {
		w.failf("%s[%d]: got %v, want %v within %v", what, i, got[i], want[i], tolerance)
	}
}

// far returns the first number of got that is not want's to within tolerance, or -1.
//
//go:norace
func far(got, want []float32, tolerance float32) int {
	for i, g := range got {
		if d := g - want[i]; !(d <= tolerance && -d <= tolerance) {
			return i
		}
	}
	return -1
}

// fill returns n times v.
func fill(n int, v float32) []float32 {
	x := make([]float32, n)
	if n > 0 && v != 0 {
		x[0] = v
		for k := 1; k < n; k *= 2 {
			copy(x[k:], x[:k])
		}
	}
	return x
}
