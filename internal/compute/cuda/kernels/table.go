package kernels

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A Tensor is one parameter, or its gradient, in its two forms: row-major (K,C,R,S) float32 as in
// the rest of the program, and on the device (PadK,R,S,PadC) of some type. What has fewer
// dimensions has ones at the end: a matrix (K,C) is (K,C,1,1), a vector (1,C,1,1).
type Tensor struct {
	Type       Type
	K, C, R, S int

	// PadK and PadC are K and C if they are 0.
	PadK, PadC int

	RowMajor drv.Ptr // float32

	// ChannelLast is of Type.
	ChannelLast drv.Ptr
}

// A Table is a list of tensors in device memory: one launch moves them all.
type Table struct {
	memory  drv.Ptr
	entries int
	tiles   int64
	read    int64 // bytes of the row-major forms
	written int64 // bytes of the others
}

// allocator is what a table needs of a drv.Context.
type allocator interface {
	Malloc(bytes int64) (drv.Ptr, error)
	Free(p drv.Ptr) error
	HostAlloc(bytes int64) ([]byte, error)
	HostFree(b []byte) error
	CopyToDevice(dst drv.Ptr, src unsafe.Pointer, n int64, s drv.Stream) error
	Synchronize(s drv.Stream) error
}

const (
	entryBytes = 64

	// tileRoom is how many numbers a block turns over at a time, as src/table.cu knows it.
	tileRoom = 2304
)

// tiling is how an entry is cut: a tile is some filters of all channels, or some channels of one
// filter.
func (t Tensor) tiling() (filters, channels int) {
	area := t.R * t.S
	if t.PadC*area <= tileRoom {
		return tileRoom / (t.PadC * area), t.PadC
	}
	channels = tileRoom / area
	if channels >= 8 {
		channels = channels / 8 * 8
	}
	return 1, channels
}

// NewTable puts the list into device memory; FreeTable gives it back. It waits for the stream.
func (k *Set) NewTable(s drv.Stream, tensors []Tensor) (*Table, error) {
	memory, ok := k.device.(allocator)
	if !ok {
		return nil, fmt.Errorf("kernels: new table: this set has no memory")
	}
	t := &Table{entries: len(tensors)}
	if len(tensors) == 0 {
		return t, nil
	}
	data := make([]byte, 0, entryBytes*len(tensors))

	// owners are those of the tiles.
	var owners []byte
	for i, e := range tensors {
		if e.PadK == 0 {
			e.PadK = e.K
		}
		if e.PadC == 0 {
			e.PadC = e.C
		}
		if min(e.K, e.C, e.R, e.S) < 1 || e.PadK < e.K || e.PadC < e.C || !e.Type.float() || e.RowMajor == 0 || e.ChannelLast == 0 || e.R*e.S > tileRoom {
			return nil, fmt.Errorf("kernels: new table: tensor %d: got %+v, want positive sizes, pads no less, R·S at most %d, addresses and a type of floats", i, e, tileRoom)
		}
		filters, channels := e.tiling()
		across := (e.PadC + channels - 1) / channels
		data = binary.LittleEndian.AppendUint64(data, uint64(e.RowMajor))
		data = binary.LittleEndian.AppendUint64(data, uint64(e.ChannelLast))
		for _, v := range []int{e.K, e.C, e.R * e.S, e.PadK, e.PadC, filters, channels, across, int(t.tiles), int(e.Type), 0, 0} {
			data = binary.LittleEndian.AppendUint32(data, uint32(v))
		}
		tiles := across * ((e.PadK + filters - 1) / filters)
		for range tiles {
			owners = binary.LittleEndian.AppendUint32(owners, uint32(i))
		}
		t.tiles += int64(tiles)
		t.read += 4 * int64(e.K) * int64(e.C) * int64(e.R*e.S)
		t.written += e.Type.Size() * int64(e.PadK) * int64(e.PadC) * int64(e.R*e.S)
	}
	data = append(data, owners...)
	pinned, err := memory.HostAlloc(int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("kernels: new table of %d tensors: %w", len(tensors), err)
	}
	defer memory.HostFree(pinned)
	copy(pinned, data)
	if t.memory, err = memory.Malloc(int64(len(data))); err != nil {
		return nil, fmt.Errorf("kernels: new table of %d tensors: %w", len(tensors), err)
	}
	err = memory.CopyToDevice(t.memory, unsafe.Pointer(&pinned[0]), int64(len(data)), s)
	if e := memory.Synchronize(s); err == nil {
		err = e
	}
	if err != nil {
		memory.Free(t.memory)
		return nil, fmt.Errorf("kernels: new table of %d tensors: %w", len(tensors), err)
	}
	return t, nil
}

// FreeTable gives the table's memory back. No launch that reads it may be under way.
func (k *Set) FreeTable(t *Table) error {
	if t == nil || t.memory == 0 {
		return nil
	}
	p := t.memory
	t.memory = 0
	return k.device.(allocator).Free(p)
}

// Pack sets the channel-last form of each tensor from the row-major one, pads to zero.
func (k *Set) Pack(s drv.Stream, t *Table) error {
	l := k.begin("pack", s)
	return l.table(t, t.read, t.written, func(a *args) {})
}

// Unpack sets the row-major form of each tensor from the other: numbers times constant·factor[0],
// and found[0] = 1 if one of the results is infinite or not a number. factor (a float32) and found
// (a uint32) may be 0 for none.
func (k *Set) Unpack(s drv.Stream, t *Table, constant float32, factor, found drv.Ptr) error {
	l := k.begin("unpack", s)
	return l.table(t, t.written, t.read, func(a *args) { a.ptr(factor, found).f32(constant) })
}

func (l *launch) table(t *Table, read, written int64, more func(*args)) error {
	if t.entries == 0 {
		return nil
	}
	l.pointers(t.memory)
	l.a.ptr(t.memory).i32(t.entries, int(t.tiles))
	more(&l.a)
	return l.launch("", [3]uint32{uint32(min(t.tiles, 8*int64(l.set.maxBlocks()))), 1, 1}, read, written)
}
