package npy

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
)

// A Number is what rows can be read as.
type Number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// rawRows are buffers for rows as they are in the file.
var rawRows = sync.Pool{New: func() any { return new([]byte) }}

// Read reads rows first to first+n of an array as numbers of type T, row by row, into dst, which
// has room for n times RowValues. Any number can be read as a float, which rounds; as an integer
// only integers and booleans, and one that T cannot hold is an error that names its row.
func Read[T Number](ctx context.Context, a *Array, first, n int, dst []T) error {
	if err := a.check(first, n); err != nil {
		return a.failed(err)
	}
	values := n * a.rowValues
	if len(dst) < values {
		return a.failed(fmt.Errorf("got room for %d numbers, want %d for %d rows", len(dst), values, n))
	}
	if a.dtype.Kind == Float && !isFloat[T]() {
		return a.failed(fmt.Errorf("got numbers of type %v, want integers", a.dtype))
	}
	buf := rawRows.Get().(*[]byte)
	defer rawRows.Put(buf)
	size := n * a.RowBytes()
	if cap(*buf) < size {
		*buf = make([]byte, size)
	}
	raw := (*buf)[:size]
	if err := a.ReadRows(ctx, first, n, raw); err != nil {
		return err
	}
	if at := convert(dst[:values], raw, a.dtype); at >= 0 {
		return a.failed(fmt.Errorf("row %d, number %d: got %v of type %v, which is no %T",
			first+at/a.rowValues, at%a.rowValues, one(raw[at*a.dtype.Size:], a.dtype), a.dtype, *new(T)))
	}
	return nil
}

// isFloat reports whether T has fractions.
func isFloat[T Number]() bool {
	fraction := 0.5
	return T(fraction) != 0
}

// convert fills dst from little-endian numbers of type t. It returns the place of the first that T
// cannot hold; -1: none.
func convert[T Number](dst []T, raw []byte, t DType) int {
	switch t.Kind {
	case Bool:
		for i := range dst {
			dst[i] = 0
			if raw[i] != 0 {
				dst[i] = 1
			}
		}
	case Uint:
		return convertUint(dst, raw, t.Size)
	case Int:
		return convertInt(dst, raw, t.Size)
	case Float:
		convertFloat(dst, raw, t.Size)
	}
	return -1
}

// convertUint is convert for unsigned integers of size bytes.
func convertUint[T Number](dst []T, raw []byte, size int) int {
	switch size {
	case 1:
		for i := range dst {
			if !put(dst, i, raw[i]) {
				return i
			}
		}
	case 2:
		for i := range dst {
			if !put(dst, i, binary.LittleEndian.Uint16(raw[2*i:])) {
				return i
			}
		}
	case 4:
		for i := range dst {
			if !put(dst, i, binary.LittleEndian.Uint32(raw[4*i:])) {
				return i
			}
		}
	case 8:
		for i := range dst {
			if !put(dst, i, binary.LittleEndian.Uint64(raw[8*i:])) {
				return i
			}
		}
	}
	return -1
}

// convertInt is convert for signed integers of size bytes.
func convertInt[T Number](dst []T, raw []byte, size int) int {
	switch size {
	case 1:
		for i := range dst {
			if !put(dst, i, int8(raw[i])) {
				return i
			}
		}
	case 2:
		for i := range dst {
			if !put(dst, i, int16(binary.LittleEndian.Uint16(raw[2*i:]))) {
				return i
			}
		}
	case 4:
		for i := range dst {
			if !put(dst, i, int32(binary.LittleEndian.Uint32(raw[4*i:]))) {
				return i
			}
		}
	case 8:
		for i := range dst {
			if !put(dst, i, int64(binary.LittleEndian.Uint64(raw[8*i:]))) {
				return i
			}
		}
	}
	return -1
}

// convertFloat is convert for floats of size bytes, any of which T holds, rounded.
func convertFloat[T Number](dst []T, raw []byte, size int) {
	switch size {
	case 2:
		for i := range dst {
			dst[i] = T(half(binary.LittleEndian.Uint16(raw[2*i:])))
		}
	case 4:
		for i := range dst {
			dst[i] = T(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
		}
	case 8:
		for i := range dst {
			dst[i] = T(math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:])))
		}
	}
}

// put stores an integer and reports whether T can hold it; a float can hold any, rounded.
func put[T Number, V int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](dst []T, i int, v V) bool {
	d := T(v)
	dst[i] = d
	return isFloat[T]() || V(d) == v && (d < 0) == (v < 0)
}

// one returns one number for a message.
func one(raw []byte, t DType) any {
	if t.Kind == Uint && t.Size == 8 {
		return binary.LittleEndian.Uint64(raw)
	}
	var v [1]int64
	convert(v[:], raw, t)
	return v[0]
}

// half is the value of a float of 16 bits.
func half(b uint16) float32 {
	sign, exponent, fraction := uint32(b>>15)<<31, uint32(b>>10)&31, uint32(b)&1023
	switch exponent {
	case 0:
		v := float32(fraction) / (1 << 24)
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}
