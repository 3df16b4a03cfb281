package drv_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
)

// testPTX declares the kernels that the fake machine has for these tests.
const testPTX = `
.version 7.8
.target sm_90
.address_size 64
.visible .entry test_add(
	.param .u64 test_add_param_0,
	.param .u64 test_add_param_1,
	.param .u64 test_add_param_2,
	.param .u32 test_add_param_3
)
{ ret; }
.visible .entry test_scale(.param .u64 p0, .param .f32 p1, .param .u32 p2) { ret; }
.visible .entry test_overrun(.param .u64 p0, .param .u64 p1) { ret; }
.visible .entry test_fail(.param .u32 p0) { ret; }
`

// A rig is a GPU with the test's kernels and a stream. Its methods end the test at an error.
type rig struct {
	t   *testing.T
	m   *fake.Machine
	ctx *drv.Context
	mod drv.Module
	s   drv.Stream
}

// newRig takes cuda:0 of a new machine into use.
func newRig(t *testing.T) *rig {
	t.Helper()
	m := fake.New(t)
	r := &rig{t: t, m: m, ctx: m.Context(0)}
	r.do(func() error {
		r.mod = must(r.ctx.LoadModule([]byte(testPTX)))(t)
		r.s = must(r.ctx.NewStream(0))(t)
		return nil
	})
	return r
}

// must is the value of a call that has to succeed.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// do runs f on the GPU's thread. Its error is to have the text, if one is given.
func (r *rig) do(f func() error, says ...string) {
	r.t.Helper()
	err := r.ctx.Do(f)
	if len(says) == 0 && err != nil || len(says) > 0 && (err == nil || !strings.Contains(err.Error(), says[0])) {
		r.t.Fatalf("got %v, want %q", err, says)
	}
}

// floats views bytes as numbers.
func floats(b []byte) []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4) }

// pinned takes n pinned numbers; pointer is where they lie.
func (r *rig) pinned(n int) []float32 {
	r.t.Helper()
	return floats(must(r.ctx.HostAlloc(int64(4 * n)))(r.t))
}

func pointer(x []float32) unsafe.Pointer { return unsafe.Pointer(&x[0]) }

// device takes n numbers on the GPU.
func (r *rig) device(n int) drv.Ptr {
	r.t.Helper()
	return must(r.ctx.Malloc(int64(4 * n)))(r.t)
}

// block packs parameters as a kernel has them.
func block(values ...any) []byte {
	var b bytes.Buffer
	for _, v := range values {
		size := binary.Size(v)
		for b.Len()%size != 0 {
			b.WriteByte(0)
		}
		binary.Write(&b, binary.LittleEndian, v)
	}
	return b.Bytes()
}

// launch puts a kernel of the test into a stream.
func (r *rig) launch(name string, s drv.Stream, values ...any) error {
	r.t.Helper()
	f := must(r.ctx.Function(r.mod, name))(r.t)
	return r.ctx.Launch(f, [3]uint32{2, 1, 1}, [3]uint32{64, 1, 1}, 0, s, block(values...))
}

// check fails unless all of x is want.
func check(t *testing.T, what string, x []float32, want func(i int) float32) {
	t.Helper()
	for i, got := range x {
		if w := want(i); got != w && !(math.IsNaN(float64(got)) && math.IsNaN(float64(w))) {
			t.Fatalf("%s: number %d is %v, want %v", what, i, got, w)
		}
	}
}

func fill(x []float32, f func(i int) float32) {
	for i := range x {
		x[i] = f(i)
	}
}

// firstErr is the first of several calls' errors.
func firstErr(errs ...error) error {
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("call %d: %w", i, err)
		}
	}
	return nil
}

// newBenchRig takes cuda:0 of a new machine into use.
func newBenchRig(b *testing.B) *drv.Context { return fake.New(b).Context(0) }
