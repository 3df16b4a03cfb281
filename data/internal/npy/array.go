// Package npy reads NumPy's arrays by rows, where they lie: .npy files, and the arrays of .npz
// archives.
//
// A row is what the first index selects. Open reads the header alone; row i is a range of the file,
// and ReadRows and Read read rows first to first+n with one request. Numbers may be booleans,
// integers or floats of any size and order of bytes. Arrays of objects, which are pickles, are
// refused, and so are structured ones and those that are stored column by column.
//
// An array that an archive holds uncompressed (numpy.savez) is read in place; a compressed one
// (numpy.savez_compressed) is loaded whole.
package npy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// An Array is one array. Its methods may be called from several goroutines at once.
type Array struct {
	// name is for errors: the file's, and the array's in an archive.
	name string

	store  objects.Store
	object objects.Info

	// memory is all of the file, in place of store and object.
	memory []byte

	// offset is that of the first number, in the object or in memory.
	offset int64

	dtype     DType
	big       bool
	shape     []int
	rowValues int
}

// Open reads the header of a .npy file.
func Open(ctx context.Context, store objects.Store, info objects.Info) (*Array, error) {
	a := &Array{name: info.Name, store: store, object: info}
	if err := a.open(ctx, 0, info.Size); err != nil {
		return nil, a.failed(err)
	}
	return a, nil
}

// failed names the array in an error.
func (a *Array) failed(err error) error {
	if a.store != nil {
		return fmt.Errorf("npy: %s: %s: %w", a.store.URL(), a.name, err)
	}
	return fmt.Errorf("npy: %s: %w", a.name, err)
}

// open reads the header of the size bytes from base on.
func (a *Array) open(ctx context.Context, base, size int64) error {
	head := make([]byte, min(size, headRead))
	if err := a.read(ctx, head, base); err != nil {
		return err
	}
	n, err := headerSize(head)
	if err != nil {
		return err
	}
	if int64(n) > size {
		return errShort
	}
	if n > len(head) {
		head = make([]byte, n)
		if err := a.read(ctx, head, base); err != nil {
			return err
		}
	}
	h, err := parseHeader(head)
	if err != nil {
		return err
	}
	if len(h.shape) == 0 {
		return errors.New("holds a single number (shape ()), want rows")
	}
	a.dtype, a.big, a.shape, a.offset, a.rowValues = h.dtype, h.big, h.shape, base+int64(h.start), 1
	for _, d := range h.shape[1:] {
		hi, lo := bits.Mul64(uint64(a.rowValues), uint64(d))
		if hi != 0 || lo > math.MaxInt/8 {
			return fmt.Errorf("got shape %v, which is larger than memory can be", h.shape)
		}
		a.rowValues = int(lo)
	}
	hi, want := bits.Mul64(uint64(h.shape[0]), uint64(a.RowBytes()))
	if data := uint64(size - int64(h.start)); hi != 0 || want != data {
		if hi == 0 && want < data {
			return fmt.Errorf("shape %v of %v ends at byte %d, and %d more follow: save one array in a file",
				h.shape, h.dtype, uint64(h.start)+want, data-want)
		}
		return fmt.Errorf("shape %v of %v has rows of %d bytes, and the file ends after %d bytes of them: it is cut short",
			h.shape, h.dtype, a.RowBytes(), data)
	}
	return nil
}

// read fills p from an offset in the file.
func (a *Array) read(ctx context.Context, p []byte, off int64) error {
	if a.memory != nil {
		copy(p, a.memory[off:])
		return nil
	}
	if len(p) == 0 {
		return nil
	}
	return a.store.ReadRange(ctx, a.object, p, off)
}

// Name is the array's name for messages.
func (a *Array) Name() string { return a.name }

// Rows is the number of rows.
func (a *Array) Rows() int { return a.shape[0] }

// RowShape is the shape of one row: empty for an array of one dimension, whose rows are numbers.
func (a *Array) RowShape() []int { return append([]int(nil), a.shape[1:]...) }

// RowValues is how many numbers a row has.
func (a *Array) RowValues() int { return a.rowValues }

// RowBytes is how many bytes of the file a row has.
func (a *Array) RowBytes() int { return a.rowValues * a.dtype.Size }

// DType is the type of the numbers in the file.
func (a *Array) DType() DType { return a.dtype }

// Range is where rows first to first+n lie; ok is false for an array that is in memory.
func (a *Array) Range(first, n int) (r objects.Range, ok bool) {
	if a.memory != nil {
		return objects.Range{}, false
	}
	return objects.Range{Object: a.object, Off: a.offset + int64(first)*int64(a.RowBytes()), Length: int64(n) * int64(a.RowBytes())}, true
}

// ReadRows reads rows first to first+n into dst as they are in the file, but with little-endian
// numbers. dst has room for n times RowBytes.
func (a *Array) ReadRows(ctx context.Context, first, n int, dst []byte) error {
	if err := a.check(first, n); err != nil {
		return a.failed(err)
	}
	size := n * a.RowBytes()
	if len(dst) < size {
		return a.failed(fmt.Errorf("got room for %d bytes, want %d for %d rows", len(dst), size, n))
	}
	dst = dst[:size]
	if err := a.read(ctx, dst, a.offset+int64(first)*int64(a.RowBytes())); err != nil {
		return a.failed(fmt.Errorf("rows %d to %d: %w", first, first+n-1, err))
	}
	if a.big {
		swap(dst, a.dtype.Size)
	}
	return nil
}

func (a *Array) check(first, n int) error {
	if first < 0 || n < 0 || first > a.Rows()-n {
		return fmt.Errorf("got rows %d to %d, want 0 to %d", first, first+n-1, a.Rows()-1)
	}
	if a.RowBytes() > 0 && n > math.MaxInt/a.RowBytes() {
		return fmt.Errorf("got %d rows of %d bytes, more than memory can hold", n, a.RowBytes())
	}
	return nil
}

// swap turns the bytes of each number around.
func swap(p []byte, size int) {
	switch size {
	case 2:
		for i := 0; i+2 <= len(p); i += 2 {
			binary.LittleEndian.PutUint16(p[i:], binary.BigEndian.Uint16(p[i:]))
		}
	case 4:
		for i := 0; i+4 <= len(p); i += 4 {
			binary.LittleEndian.PutUint32(p[i:], binary.BigEndian.Uint32(p[i:]))
		}
	case 8:
		for i := 0; i+8 <= len(p); i += 8 {
			binary.LittleEndian.PutUint64(p[i:], binary.BigEndian.Uint64(p[i:]))
		}
	}
}
