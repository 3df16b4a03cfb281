package kvstore

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// Values are sent little-endian. On a little-endian machine they are sent from and received into
// the caller's own memory.

// littleEndian reports whether this machine is little-endian.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// bytesOf returns the bytes that values occupy.
func bytesOf(values []float32) []byte {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
}

// floats returns values as they are sent: their own memory, or a copy in r if the byte order
// differs.
func (r *alignedBuffer) floats(native bool, values []float32) []byte {
	if native {
		return bytesOf(values)
	}
	b := r.bytes(4 * len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
	return b
}

// receiveBuffer returns the memory that values are received into: their own, or r where the byte
// order differs.
func (r *alignedBuffer) receiveBuffer(native bool, values []float32) []byte {
	if native {
		return bytesOf(values)
	}
	return r.bytes(4 * len(values))
}

// decodeFloats decodes received bytes into values. On a little-endian machine the bytes were
// received into values already.
func decodeFloats(native bool, values []float32, got []byte) {
	if native {
		return
	}
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(got[4*i:]))
	}
}

// rowNumbers returns row numbers as they are sent: their own memory, or a copy in r if the byte
// order differs.
func (r *alignedBuffer) rowNumbers(native bool, rows []int64) []byte {
	if len(rows) == 0 {
		return nil
	}
	if native {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(rows))), 8*len(rows))
	}
	b := r.bytes(8 * len(rows))
	for i, row := range rows {
		binary.LittleEndian.PutUint64(b[8*i:], uint64(row))
	}
	return b
}

// grow returns *buffer with length n, reallocated only if it is too small. The content is
// undefined.
func grow[T any](buffer *[]T, n int) []T {
	if cap(*buffer) < n {
		*buffer = make([]T, n)
	}
	*buffer = (*buffer)[:n]
	return *buffer
}
