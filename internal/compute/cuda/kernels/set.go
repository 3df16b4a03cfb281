package kernels

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A Launch is one kernel launch and what it moves: the bytes of all that it has to read and to
// write once each, which is what a device moves that keeps nothing and reads nothing twice.
type Launch struct {
	Kernel        string
	Grid          [3]uint32
	Block         uint32
	Read, Written int64
}

// launcher is what a Set needs of a drv.Context.
type launcher interface {
	Launch(f drv.Function, grid, block [3]uint32, sharedBytes uint32, s drv.Stream, params []byte) error
}

// A Set is the kernels on one device.
type Set struct {
	device    launcher
	sms       int
	module    drv.Module
	unload    func() error
	functions map[string]drv.Function
	trace     func(Launch)

	// one is the launch in the making. A Set makes one at a time.
	one launch
}

// Trace sets a function that is called after each launch; nil: none. It is used to count bytes and
// to list launches.
func (k *Set) Trace(f func(Launch)) { k.trace = f }

// launch is one launch in the making. The first complaint stays and is what launching returns.
type launch struct {
	set    *Set
	name   string
	stream drv.Stream
	a      args
	empty  bool // there is nothing to do
	err    error
}

func (k *Set) begin(name string, s drv.Stream) *launch {
	k.one = launch{set: k, name: name, stream: s, a: args{k.one.a.b[:0]}}
	return &k.one
}

func (l *launch) fail(format string, values ...any) error {
	if l.err == nil {
		l.err = fmt.Errorf("kernels: %s: "+format, append([]any{l.name}, values...)...)
	}
	return l.err
}

// types checks that kernels compute with these.
func (l *launch) types(types ...Type) *launch {
	for _, t := range types {
		if !t.float() {
			l.fail("got type %v, want f32, bf16 or f16", t)
		}
	}
	return l
}

// numbers checks a count of numbers; none makes the launch do nothing.
func (l *launch) numbers(n int64) *launch {
	if n < 0 {
		l.fail("got %d numbers, want 0 or more", n)
	}
	l.empty = l.empty || n == 0
	return l
}

// sizes checks that all are positive, and that they and the rows that they make fit an int32.
func (l *launch) sizes(sizes ...int) *launch {
	for i, n := range sizes {
		if n < 1 || n > math.MaxInt32 {
			l.fail("size %d of %v is %d, want 1 to %d", i, sizes, n, math.MaxInt32)
		}
	}
	return l
}

// pointers checks that none is 0.
func (l *launch) pointers(p ...drv.Ptr) *launch {
	for i, v := range p {
		if v == 0 && !l.empty {
			l.fail("address %d of %d is 0", i, len(p))
		}
	}
	return l
}

// threads is the size of all blocks.
const threads = 256

// flat launches a kernel that goes over n numbers one after the other, eight at a time.
func (l *launch) flat(suffix string, n, read, written int64) error {
	// A thread has four vectors in flight at a time.
	const each = threads * 8 * 4
	blocks := min((n+each-1)/each, int64(l.set.maxBlocks()))
	return l.launch(suffix, [3]uint32{uint32(max(blocks, 1)), 1, 1}, read, written)
}

// rows launches a kernel that goes over rows of channels.
func (l *launch) rows(suffix string, r rows, read, written int64) error {
	if r.vector == 1 {
		suffix += "_1"
	}
	return l.launch(suffix, r.grid, read, written)
}

// channels launches a kernel whose blocks combine the partial sums of eight channels each.
func (l *launch) channels(c int, read, written int64) error {
	return l.launch("", [3]uint32{uint32((c + 7) / 8), 1, 1}, read, written)
}

func (l *launch) launch(suffix string, grid [3]uint32, read, written int64) error {
	if l.err != nil || l.empty {
		return l.err
	}
	name := l.name + suffix
	f, ok := l.set.functions[name]
	if !ok {
		return fmt.Errorf("kernels: there is no kernel %s in this build", name)
	}
	if err := l.set.device.Launch(f, grid, [3]uint32{threads, 1, 1}, 0, l.stream, l.a.b); err != nil {
		return fmt.Errorf("kernels: %s, grid %v: %w", name, grid, err)
	}
	if l.set.trace != nil {
		l.set.trace(Launch{Kernel: name, Grid: grid, Block: threads, Read: read, Written: written})
	}
	return nil
}

// maxBlocks is the most blocks that share a sum: enough to fill the device, few enough to be added
// up quickly.
func (k *Set) maxBlocks() int { return 4 * k.sms }

// resident is how many blocks of a kernel a multiprocessor has room for at a time, as the sources
// say by KERNEL_BY. A grid has as many for each multiprocessor and no more: blocks that begin when
// others end would have the device to themselves.
var resident = map[string]int{
	"bn_stats": 4, "bn_apply": 4, "bn_apply_add": 3,
	"bn_grad_sums": 2, "bn_grad_sums_x": 2, "bn_grad_dx": 2, "bn_grad_dx_x": 2,
}

// rows says how blocks go over rows of c channels. A thread has one vector of channels in every row
// that it reads: lanes threads lie side by side over the channels, threads/lanes rows below each
// other. grid[1] counts blocks over the channels where lanes do not reach.
type rows struct {
	vector, lanes int
	grid          [3]uint32
}

// rowsInFlight is how many rows a thread has in flight at a time; src/gpu.h knows it as unroll.
const rowsInFlight = 4

// rows is for a kernel whose blocks take whole rows.
func (k *Set) rows(n, c int, aligned bool, resident int) rows {
	return k.columns(n, c, aligned, resident, threads)
}

// sums is for a kernel that adds up rows: blocks take columns of 128 bytes, a line of the cache, so
// that what a block leaves is short whatever the number of channels.
func (k *Set) sums(n, c int, aligned bool, resident int) rows {
	if aligned && c%8 == 0 {
		return k.columns(n, c, aligned, resident, 8)
	}
	return k.columns(n, c, aligned, resident, 64)
}

// columns cuts the channels into as many columns of at most lanes threads as it takes, all of about
// one width.
func (k *Set) columns(n, c int, aligned bool, resident, lanes int) rows {
	if n < 1 || c < 1 {
		return rows{1, 1, [3]uint32{1, 1, 1}} // sizes complains
	}
	r := rows{vector: 1}
	if aligned && c%8 == 0 {
		r.vector = 8
	}
	vectors := c / r.vector
	wide := (vectors + lanes - 1) / lanes
	r.lanes = (vectors + wide - 1) / wide
	high := threads / r.lanes * rowsInFlight
	r.grid = [3]uint32{uint32(min((n+high-1)/high, max(1, resident*k.sms/wide))), uint32(wide), 1}
	return r
}

// aligned is true if all addresses are multiples of 16.
func aligned(p ...drv.Ptr) bool {
	for _, v := range p {
		if v%16 != 0 {
			return false
		}
	}
	return true
}

func suffix(t Type) string            { return "_" + t.String() }
func suffix2(from, to Type) string    { return "_" + from.String() + "_" + to.String() }
func wholeBlocks(n, each int64) int64 { return (n + each - 1) / each }

// args is the parameter block of a launch: each value at a multiple of its size, little-endian.
type args struct{ b []byte }

func (a *args) align(n int) *args {
	for len(a.b)%n != 0 {
		a.b = append(a.b, 0)
	}
	return a
}

func (a *args) ptr(p ...drv.Ptr) *args {
	a.align(8)
	for _, v := range p {
		a.b = binary.LittleEndian.AppendUint64(a.b, uint64(v))
	}
	return a
}

func (a *args) i64(n ...int64) *args {
	a.align(8)
	for _, v := range n {
		a.b = binary.LittleEndian.AppendUint64(a.b, uint64(v))
	}
	return a
}

func (a *args) i32(n ...int) *args {
	a.align(4)
	for _, v := range n {
		a.b = binary.LittleEndian.AppendUint32(a.b, uint32(int32(v)))
	}
	return a
}

func (a *args) flag(b bool) *args {
	if b {
		return a.i32(1)
	}
	return a.i32(0)
}

func (a *args) f32(x ...float32) *args {
	a.align(4)
	for _, v := range x {
		a.b = binary.LittleEndian.AppendUint32(a.b, math.Float32bits(v))
	}
	return a
}

func (a *args) f64(x ...float64) *args {
	a.align(8)
	for _, v := range x {
		a.b = binary.LittleEndian.AppendUint64(a.b, math.Float64bits(v))
	}
	return a
}
