package checkpoint

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/observe/shown"
)

// A Tensor is a tensor to write, made by Float32s and the like. It keeps
// the values, which must not change before it is written.
type Tensor struct {
	name  string
	dtype DType
	shape []int
	// have is how many elements were given; -1: a function writes them, and −2: they are of a
	// type that float32 values cannot be written as.
	have  int
	write func(w io.Writer) error
}

// Float32s is a tensor of type F32.
func Float32s(name string, shape []int, values []float32) Tensor {
	return Float32sAs(name, F32, shape, values)
}

// Float32sAs is a tensor of type F32, F16 or BF16, to which the values are
// rounded, ties to even. Any other type is an error when it is written.
func Float32sAs(name string, dtype DType, shape []int, values []float32) Tensor {
	t := Tensor{name: name, dtype: dtype, shape: shape, have: len(values)}
	switch dtype {
	case F32:
		t.write = withoutCopy(values)
	case F16:
		t.write = pieces(values, 2, func(b []byte, x float32) { binary.LittleEndian.PutUint16(b, f32.Float16Bits(x)) })
	case BF16:
		t.write = pieces(values, 2, func(b []byte, x float32) { binary.LittleEndian.PutUint16(b, f32.BFloat16Bits(x)) })
	default:
		t.have = -2
	}
	return t
}

// Float64s is a tensor of type F64.
func Float64s(name string, shape []int, values []float64) Tensor {
	return Tensor{name, F64, shape, len(values),
		pieces(values, 8, func(b []byte, x float64) { binary.LittleEndian.PutUint64(b, math.Float64bits(x)) })}
}

// Int64s is a tensor of type I64.
func Int64s(name string, shape []int, values []int64) Tensor {
	return Tensor{name, I64, shape, len(values),
		pieces(values, 8, func(b []byte, x int64) { binary.LittleEndian.PutUint64(b, uint64(x)) })}
}

// Uint8s is a tensor of type U8.
func Uint8s(name string, shape []int, values []uint8) Tensor {
	return Tensor{name, U8, shape, len(values), func(w io.Writer) error {
		_, err := w.Write(values)
		return err
	}}
}

// Stream is a tensor of any type whose bytes, little-endian and row-major, a
// function writes: as many as the shape says, in any pieces. It is called
// twice and writes the same bytes: the first time their checksum is taken.
func Stream(name string, dtype DType, shape []int, write func(w io.Writer) error) Tensor {
	return Tensor{name, dtype, shape, -1, write}
}

// Name returns the tensor's name.
func (t Tensor) Name() string { return t.name }

// bytes returns the length of the tensor's data.
func (t Tensor) bytes() (int64, error) {
	if t.have == -2 {
		return 0, fmt.Errorf("got float32 values for type %q, want F32, F16 or BF16", t.dtype)
	}
	n, err := sizeOf(t.dtype, t.shape)
	if err != nil {
		return 0, err
	}
	// Types of less than a byte are written by functions alone.
	if size := int64(t.dtype.Size()); t.have >= 0 && int64(t.have)*size != n {
		return 0, fmt.Errorf("got %d values for shape %v, want %d", t.have, t.shape, n/size)
	}
	return n, nil
}

// sizeOf returns the bytes of a tensor, checked against overflow.
func sizeOf(dtype DType, shape []int) (int64, error) {
	bits := int64(dtype.Bits())
	n, err := elements(shape)
	switch {
	case bits == 0:
		return 0, fmt.Errorf("got type %s, want one of safetensors' types", shown.Name(string(dtype)))
	case err != nil:
		return 0, err
	case n > math.MaxInt64/max(bits/8, 1):
		return 0, fmt.Errorf("got shape %v of %s, want fewer than 2⁶³ bytes", shape, dtype)
	case bits%8 == 0:
		return n * (bits / 8), nil
	case n%4 != 0:
		// 4 elements of 6 bits are 3 bytes, and 2 elements of 4 bits are one.
		if bits == 4 && n%2 == 0 {
			break
		}
		return 0, fmt.Errorf("got shape %v of %s, %d elements of %d bits, want whole bytes", shape, dtype, n, bits)
	}
	return n/4*(bits/2) + n%4*bits/8, nil
}

// elements returns the number of values of a shape, checked against overflow.
func elements(shape []int) (int64, error) {
	n := int64(1)
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("got shape %v, want no dimension below 0", shape)
		}
		if d == 0 {
			n = 0
		}
	}
	for _, d := range shape {
		if n == 0 {
			break
		}
		if int64(d) > math.MaxInt64/n {
			return 0, fmt.Errorf("got shape %v, want fewer than 2⁶³ values", shape)
		}
		n *= int64(d)
	}
	return n, nil
}

// littleEndian reports whether this machine has the byte order of the file.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// withoutCopy returns a function that writes the values without a copy, if the byte order allows
// it.
func withoutCopy(values []float32) func(io.Writer) error {
	if !littleEndian {
		return pieces(values, 4, func(b []byte, x float32) { binary.LittleEndian.PutUint32(b, math.Float32bits(x)) })
	}
	return func(w io.Writer) error {
		_, err := w.Write(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values)))
		return err
	}
}

// pieces returns a function that writes the values through a small buffer.
func pieces[T any](values []T, size int, put func(b []byte, x T)) func(io.Writer) error {
	return func(w io.Writer) error {
		const buffer = 64 << 10
		b := make([]byte, 0, min(buffer, len(values)*size))
		for rest := values; len(rest) > 0; {
			k := min(len(rest), buffer/size)
			b = b[:k*size]
			for i, x := range rest[:k] {
				put(b[i*size:i*size+size], x)
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
			rest = rest[k:]
		}
		return nil
	}
}
