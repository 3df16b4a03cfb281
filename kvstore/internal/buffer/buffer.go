// Package buffer has the memory in which a store sends and receives values: the caller's own, where
// the machine's byte order is that of the wire, else copies of it, which are kept for reuse.
package buffer

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Values are sent little-endian. On a little-endian machine they are sent from and received into
// the caller's own memory.

// LittleEndian reports whether this machine is little-endian.
var LittleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// BytesOf returns the bytes that values occupy.
func BytesOf(values []float32) []byte {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
}

// Floats returns values as they are sent: their own memory, or a copy in r if the byte order
// differs.
func (r *Aligned) Floats(native bool, values []float32) []byte {
	if native {
		return BytesOf(values)
	}
	b := r.Bytes(4 * len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
	return b
}

// Receive returns the memory that values are received into: their own, or r where the byte
// order differs.
func (r *Aligned) Receive(native bool, values []float32) []byte {
	if native {
		return BytesOf(values)
	}
	return r.Bytes(4 * len(values))
}

// DecodeFloats decodes received bytes into values. On a little-endian machine the bytes were
// received into values already.
func DecodeFloats(native bool, values []float32, got []byte) {
	if native {
		return
	}
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(got[4*i:]))
	}
}

// RowNumbers returns row numbers as they are sent: their own memory, or a copy in r if the byte
// order differs.
func (r *Aligned) RowNumbers(native bool, rows []int64) []byte {
	if len(rows) == 0 {
		return nil
	}
	if native {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(rows))), 8*len(rows))
	}
	b := r.Bytes(8 * len(rows))
	for i, row := range rows {
		binary.LittleEndian.PutUint64(b[8*i:], uint64(row))
	}
	return b
}

// Grow returns *buffer with length n, reallocated only if it is too small. The content is
// undefined.
func Grow[T any](buffer *[]T, n int) []T {
	if cap(*buffer) < n {
		*buffer = make([]T, n)
	}
	*buffer = (*buffer)[:n]
	return *buffer
}

// An Aligned is memory for encoded values, aligned for every codec.
type Aligned []uint64

// Bytes returns n bytes of it, grown if needed.
func (r *Aligned) Bytes(n int) []byte {
	Grow((*[]uint64)(r), (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(*r))), 8*len(*r))[:n]
}

// ValuesSize returns the bytes that n values sent back take under a codec: float32, float16 or
// bfloat16.
func ValuesSize(codec uint8, n int) int {
	if codec == wire.CodecFloat16 || codec == wire.CodecBFloat16 {
		return 2 * n
	}
	return 4 * n
}

// DecodeHalves decodes 16-bit values. It may overwrite code.
func DecodeHalves(native bool, codec uint8, dst []float32, code []byte) {
	SwapHalves(native, code)
	if codec == wire.CodecFloat16 {
		f32.FromFloat16(dst, Halves(code))
	} else {
		f32.FromBFloat16(dst, Halves(code))
	}
}

// Halves views the bytes of an Aligned as 16-bit numbers in this machine's byte order.
func Halves(code []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(code))), len(code)/2)
}

// SwapHalves converts 16-bit numbers between this machine's byte order and little-endian.
func SwapHalves(native bool, code []byte) {
	if native {
		return
	}
	for i := 0; i+1 < len(code); i += 2 {
		code[i], code[i+1] = code[i+1], code[i]
	}
}

// FloatsOf views the bytes of an Aligned as values in this machine's byte order.
func FloatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
