//go:build linux && (amd64 || arm64) && !android && !nocuda

package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
	"golang.org/x/sys/unix"
)

// An emulator is a library of emulated kernels.
type emulator struct {
	launch, kernel, name, message uintptr
}

// emulatorVariable names a library that is used in place of that of src: the mutation test sets it
// for its child.
const emulatorVariable = "PARAGON_TEST_KERNELS"

func theEmulator(t testing.TB) *emulator {
	t.Helper()
	path := os.Getenv(emulatorVariable)
	if path == "" { // the one that stands behind the fake driver
		path = filepath.Join(filepath.Dir(fake.Libraries(t)[dl.CUDA]), "libemu.so")
	}
	e, err := openEmulator(path)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func buildEmulator(library, source string) error {
	out, err := exec.Command("g++", "-std=c++17", "-x", "c++", "-DGPU_EMU", "-O1", "-fPIC", "-shared", "-fno-strict-aliasing", "-ffp-contract=off",
		"-Wall", "-Wno-unknown-pragmas", "-Werror", "-I", "src", "-o", library, source).CombinedOutput()
	if err != nil {
		return fmt.Errorf("compile %s: %w\n%s", source, err, out)
	}
	return nil
}

func openEmulator(path string) (*emulator, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	e := &emulator{}
	for name, p := range map[string]*uintptr{"emu_launch": &e.launch, "emu_kernel": &e.kernel, "emu_name": &e.name, "emu_error": &e.message} {
		if *p, err = purego.Dlsym(handle, name); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// names lists the kernels of the library.
func (e *emulator) names() []string {
	var caller dl.Caller
	var names []string
	for i := 0; ; i++ {
		p := caller.Call(e.name, uintptr(i))
		if p == 0 {
			return names
		}
		names = append(names, goString(p))
	}
}

// sizes are the sizes of a kernel's parameters.
func (e *emulator) sizes(name string) []int32 {
	var caller dl.Caller
	sizes, text := make([]int32, 64), append([]byte(name), 0)
	n := int32(caller.Call(e.kernel, uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&sizes[0])), 64))
	if n < 0 {
		return nil
	}
	return sizes[:n]
}

// goString copies a text of C's.
func goString(p uintptr) string {
	var b []byte
	for c := *(**byte)(unsafe.Pointer(&p)); *c != 0; c = (*byte)(unsafe.Add(unsafe.Pointer(c), 1)) {
		b = append(b, *c)
	}
	return string(b)
}

// run launches a kernel in an order: 0 forward, 1 reversed, else shuffled.
func (e *emulator) run(name string, grid, block [3]uint32, params []byte, order int) error {
	var caller dl.Caller
	text := append([]byte(name), 0)
	sizes := &[2][3]uint32{grid, block}
	if len(params) == 0 {
		params = make([]byte, 1)[:0:1]
	}
	code := int32(caller.Call(e.launch, uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&sizes[0])), uintptr(unsafe.Pointer(&sizes[1])), 0,
		uintptr(unsafe.Pointer(unsafe.SliceData(params))), uintptr(len(params)), uintptr(order)))
	runtime.KeepAlive(params)
	if code != 0 {
		return fmt.Errorf("emulator: %s", goString(caller.Call(e.message)))
	}
	return nil
}

// A box is a device of the emulator, or a GPU: memory between guards, and a Set. It is made anew
// for each case.
type box struct {
	t      testing.TB
	gpu    *realGPU // nil for the emulator
	e      *emulator
	order  int
	memory []byte
	used   int

	// blocks are where memory was given: offset and size.
	blocks [][2]int

	names []string
	*Set

	// skew moves all memory that is given by so many bytes from where it is aligned.
	skew int
}

const (
	guard = 256

	// poison makes numbers of all types not a number.
	poison = 0xff
)

// arena is the memory of all boxes, one at a time.
var arena []byte

// A realGPU is one that boxes use in place of the emulator.
type realGPU struct {
	*drv.Context
	s      drv.Stream
	set    *Set
	memory *gputest.Memory
}

// onGPU is the one of the test under way, if it is on a GPU.
var onGPU *realGPU

func newBox(t testing.TB, sms, order int) *box {
	if g := onGPU; g != nil {
		// A test that did not end well may have left some.
		_ = g.memory.Release()
		b := &box{t: t, order: order, gpu: g}
		b.Set = &Set{device: b, sms: g.set.sms, functions: g.set.functions}
		return b
	}
	e := theEmulator(t)
	if arena == nil {
		var err error
		if arena, err = unix.Mmap(-1, 0, 32<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err != nil {
			t.Fatal(err)
		}
	}
	b := &box{t: t, e: e, order: order, memory: arena}
	b.Set = &Set{device: b, sms: sms, functions: make(map[string]drv.Function)}
	b.names = Names()
	for i, name := range b.names {
		b.functions[name] = drv.Function(i + 1)
	}
	return b
}

// Launch runs a kernel at once.
func (b *box) Launch(f drv.Function, grid, block [3]uint32, shared uint32, s drv.Stream, params []byte) error {
	if g := b.gpu; g != nil {
		return g.Do(func() error { return g.Context.Launch(f, grid, block, shared, g.s, params) })
	}
	return b.e.run(b.names[f-1], grid, block, params, b.order)
}

// room gives memory for n bytes, all of it poison.
func (b *box) room(n int) drv.Ptr {
	if b.gpu != nil {
		p, err := b.gpu.memory.Room(int64(n), int64(b.skew))
		b.must(err)
		return p
	}
	at := (b.used+255)/256*256 + guard + b.skew
	b.used = at + n + guard
	if b.used > len(b.memory) {
		b.t.Fatalf("the box has room for %d bytes, want %d", len(b.memory), b.used)
	}
	for i := range b.memory[at-guard : b.used] {
		b.memory[at-guard+i] = poison
	}
	b.blocks = append(b.blocks, [2]int{at, n})
	return drv.Ptr(uintptr(unsafe.Pointer(&b.memory[at])))
}

// bytes are those of memory: of the emulator's the very bytes.
func (b *box) bytes(p drv.Ptr, n int) []byte {
	if b.gpu != nil {
		m, err := b.gpu.memory.Read(p, int64(n))
		b.must(err)
		return m
	}
	at := int(uintptr(p) - uintptr(unsafe.Pointer(&b.memory[0])))
	return b.memory[at : at+n]
}

// write writes memory.
func (b *box) write(p drv.Ptr, m []byte) {
	if b.gpu != nil {
		b.must(b.gpu.memory.Write(p, m))
		return
	}
	copy(b.bytes(p, len(m)), m)
}

// reset takes all memory back. It fails the test if something wrote outside of what was given.
func (b *box) reset() {
	b.t.Helper()
	if b.gpu != nil {
		b.must(b.gpu.memory.Release())
		return
	}
	for i, block := range b.blocks {
		for _, at := range [2]int{block[0] - guard, block[0] + block[1]} {
			for k, v := range b.memory[at : at+guard] {
				if v != poison {
					b.t.Fatalf("byte %d from buffer %d of %d bytes was written", at+k-block[0], i, block[1])
				}
			}
		}
	}
	b.used, b.blocks = 0, nil
}

func (b *box) Malloc(n int64) (drv.Ptr, error)   { return b.room(int(n)), nil }
func (b *box) Free(drv.Ptr) error                { return nil }
func (b *box) HostAlloc(n int64) ([]byte, error) { return make([]byte, n), nil }
func (b *box) HostFree([]byte) error             { return nil }
func (b *box) Synchronize(drv.Stream) error      { return nil }
func (b *box) CopyToDevice(dst drv.Ptr, src unsafe.Pointer, n int64, _ drv.Stream) error {
	b.write(dst, unsafe.Slice((*byte)(src), n))
	return nil
}

// empty gives room for n numbers.
func (b *box) empty(t Type, n int) drv.Ptr { return b.room(n * int(t.Size())) }

// put gives memory with these numbers, rounded to the type, and rounds v itself.
func (b *box) put(t Type, v []float64) drv.Ptr {
	p, m := b.empty(t, len(v)), make([]byte, len(v)*int(t.Size()))
	for i, x := range v {
		switch t {
		case Float32:
			binary.LittleEndian.PutUint32(m[4*i:], math.Float32bits(float32(x)))
		case BFloat16, Float16:
			binary.LittleEndian.PutUint16(m[2*i:], narrow(t, float32(x)))
		case Uint8:
			m[i] = uint8(x)
		case Int32:
			binary.LittleEndian.PutUint32(m[4*i:], uint32(int32(x)))
		}
		v[i] = b.number(t, m, i)
	}
	b.write(p, m)
	return p
}

func (b *box) number(t Type, m []byte, i int) float64 {
	switch t {
	case Uint8:
		return float64(m[i])
	case Int32:
		return float64(int32(binary.LittleEndian.Uint32(m[4*i:])))
	case Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(m[4*i:])))
	}
	return float64(wide(t, binary.LittleEndian.Uint16(m[2*i:])))
}

// get reads n numbers.
func (b *box) get(t Type, p drv.Ptr, n int) []float64 {
	m := b.bytes(p, n*int(t.Size()))
	v := make([]float64, n)
	for i := range v {
		v[i] = b.number(t, m, i)
	}
	return v
}

func narrow(t Type, x float32) uint16 { return gputest.Narrow(t == BFloat16, x) }
func wide(t Type, h uint16) float32   { return gputest.Wide(t == BFloat16, h) }

// near fails the test if got differs from want by more than rounding to the type, and more times
// float32's rounding of the largest number, explain. The compiler of a GPU's machine may round
// float32 elsewhere, and its functions are not the C library's.
func near(t testing.TB, what string, typ Type, got, want []float64, more float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d numbers, want %d", what, len(got), len(want))
	}
	if onGPU != nil {
		more = 4 * max(more, 1)
	}
	unit := map[Type]float64{Float32: 0x1p-24, BFloat16: 0x1p-8, Float16: 0x1p-11}[typ]

	// smallest is the size of rounding near zero.
	smallest := map[Type]float64{Float32: 1e-30, BFloat16: 1e-30, Float16: 0x1.01p-25}[typ]
	top, worst := 0.0, 0.0
	for _, w := range want {
		if !math.IsNaN(w) && !math.IsInf(w, 0) {
			top = math.Max(top, math.Abs(w))
		}
	}
	for i, w := range want {
		g := got[i]
		if math.IsNaN(w) && math.IsNaN(g) || g == w {
			continue
		}
		d := math.Abs(g-w) / (1.01*unit*math.Abs(w) + more*0x1p-24*top + smallest)
		if !(d <= 1) {
			t.Fatalf("%s[%d] of %d, %v: got %v, want %v", what, i, len(want), typ, g, w)
		}
		worst = max(worst, d)
	}
	if onGPU != nil {
		gputest.Within(t, " "+typ.String(), worst, 1, "of rounding", what)
	}
}

// same fails the test if the numbers are not the very same.
func same(t testing.TB, what string, got, want []float64) {
	t.Helper()
	for i, w := range want {
		if got[i] != w && !(got[i] != got[i] && w != w) {
			t.Fatalf("%s[%d] of %d: got %v, want %v", what, i, len(want), got[i], w)
		}
	}
}

// floats are the types that kernels compute with.
var floats = []Type{Float32, BFloat16, Float16}

// orders are the orders of threads in which every kernel is run. A GPU has its own; there the
// number only says which cases a test takes.
var orders = []int{0, 1, 5}

// everyOrder runs f on a fresh box for each order.
func everyOrder(t *testing.T, f func(b *box)) {
	t.Helper()
	for _, order := range orders {
		if onGPU != nil && order == 1 {
			continue
		}
		b := newBox(t, 2, order)
		f(b)
		b.reset()
	}
}

// everyWay is everyOrder for each type, and with memory that is aligned and that is not.
func everyWay(t *testing.T, f func(b *box, typ Type)) {
	t.Helper()
	for _, typ := range floats {
		for _, skew := range []int{0, 4} {
			if skew != 0 && onGPU != nil && testing.Short() {
				continue // stand-ins are slow
			}
			t.Run(fmt.Sprintf("type=%v/skew=%d", typ, skew), func(t *testing.T) {
				everyOrder(t, func(b *box) {
					b.t, b.skew = t, skew
					f(b, typ)
				})
			})
		}
	}
}

func (b *box) must(err error) {
	b.t.Helper()
	if err != nil {
		gputest.Must(b.t, fmt.Errorf("order %d: %w", b.order, err))
	}
}

func TestTheEmulatorAndThePTXHaveTheSameKernels(t *testing.T) {
	e := theEmulator(t)
	emulated := strings.Join(e.names(), " ")
	if got := strings.Join(Names(), " "); got != emulated {
		t.Fatalf("PTX has the kernels\n%s\nand the emulator\n%s", got, emulated)
	}
	for _, name := range e.names() {
		if got, want := e.sizes(name), parameterSizes(t, name); !slices.Equal(got, want) {
			t.Errorf("%s has parameters of %v bytes in the emulator and %v in the PTX", name, got, want)
		}
	}
}
