package f32

import (
	order "encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// The code of the k largest of n values, with error feedback as in Stich, Cordonnier and Jaggi,
// "Sparsified SGD with Memory", NeurIPS 2018, algorithm 1: residual += grad; the k values of
// residual that are largest in magnitude are said as they are, and become 0 in residual.
// Little-endian:
//
//	offset  size  field
//	     0     4  count   values that follow: k, or fewer where fewer are not zero
//	     4     4  form    of the indices: 0 gaps, 1 bitmap
//	     8     4c values  float32, in the order of their indices
//	  8+4c     .  indices, which rise, in the shorter of two forms, gaps if they are alike
//
// Gaps: for each value the number of values left out since the one before (or since the start), in
// groups of 7 bits, lowest first, with 0x80 added to each byte but the last of a number; no number
// has more bytes than it needs. Bitmap: a bit for each of the n values, lowest bit of a byte first,
// 1 if it is among those that follow; padded with zero bits.
//
// Where this would not be surely shorter than the values themselves, the code is all n values,
// float32, and so has 4n bytes; no other code is as long.

const (
	topKHeader = 8
	formGaps   = 0
	formBitmap = 1
)

// CodeTopKLen is the most bytes that the code of the k largest of n values takes.
func CodeTopKLen(n, k int) int { return min(topKHeader+4*k+min(5*k, bitmapLen(n)), 4*n) }

func bitmapLen(n int) int { return (n + 7) / 8 }

// Encode adds grad to residual, writes to code, which has room for CodeTopKLen(len(grad), k) bytes,
// what the k largest say, and takes that from residual. It returns the code. 1 ≤ k ≤ len(grad),
// except that both may be 0.
func (t *TopK) Encode(code []byte, residual, grad []float32, k int) []byte {
	n := len(grad)
	if len(residual) != n || k > n || k < min(n, 1) {
		panic(fmt.Sprintf("f32: TopK.Encode: %d of %d values, residual of %d", k, n, len(residual)))
	}
	AddTo(residual, grad)
	most := CodeTopKLen(n, k)
	code = code[:most]
	if most == 4*n {
		for i, v := range residual {
			order.LittleEndian.PutUint32(code[4*i:], math.Float32bits(v))
		}
		clear(residual)
		return code
	}
	found := t.choose(residual, k)
	for i, at := range found {
		order.LittleEndian.PutUint32(code[topKHeader+4*i:], math.Float32bits(residual[at]))
		residual[at] = 0
	}
	return code[:topKHeader+4*len(found)+putIndices(code, found, n)]
}

// putIndices writes the head of a code and its indices, and returns the bytes of these.
func putIndices(code []byte, found []uint32, n int) int {
	size, next := 0, uint32(0)
	for _, at := range found {
		size += gapLen(at - next)
		next = at + 1
	}
	order.LittleEndian.PutUint32(code, uint32(len(found)))
	indices := code[topKHeader+4*len(found):]
	if size > bitmapLen(n) {
		order.LittleEndian.PutUint32(code[4:], formBitmap)
		indices = indices[:bitmapLen(n)]
		clear(indices)
		for _, at := range found {
			indices[at/8] |= 1 << (at % 8)
		}
		return len(indices)
	}
	order.LittleEndian.PutUint32(code[4:], formGaps)
	i, next := 0, uint32(0)
	for _, at := range found {
		gap := at - next
		next = at + 1
		for gap >= 0x80 {
			indices[i] = byte(gap) | 0x80
			gap >>= 7
			i++
		}
		indices[i] = byte(gap)
		i++
	}
	return size
}

// gapLen is the number of bytes of a gap.
func gapLen(gap uint32) int { return max(1, (bits.Len32(gap)+6)/7) }

// CheckTopK says what is wrong with a code of n values, which may come from anyone.
func CheckTopK(code []byte, n int) error {
	if len(code) == 4*n {
		return nil
	}
	if len(code) < topKHeader || len(code) > 4*n {
		return fmt.Errorf("got %d bytes, want %d to %d for %d values", len(code), min(topKHeader, 4*n), 4*n, n)
	}
	count, form := uint64(order.LittleEndian.Uint32(code)), order.LittleEndian.Uint32(code[4:])
	if count > uint64(n) || topKHeader+4*count > uint64(len(code)) {
		return fmt.Errorf("got a count of %d of %d values in %d bytes", count, n, len(code))
	}
	indices := code[topKHeader+4*count:]
	switch form {
	case formGaps:
		return checkGaps(indices, int(count), n)
	case formBitmap:
		return checkBitmap(indices, int(count), n)
	}
	return fmt.Errorf("got form %d of indices, want 0 (gaps) or 1 (bitmap)", form)
}

func checkGaps(indices []byte, count, n int) error {
	if len(indices) > bitmapLen(n) {
		return fmt.Errorf("got gaps of %d bytes, want at most the %d of a bitmap", len(indices), bitmapLen(n))
	}
	next, i := uint64(0), 0
	for v := range count {
		gap, shift := uint64(0), 0
		for {
			if i == len(indices) {
				return fmt.Errorf("got gaps of %d bytes, which end in value %d of %d", len(indices), v, count)
			}
			b := indices[i]
			i++
			gap |= uint64(b&0x7f) << shift
			if b < 0x80 {
				if b == 0 && shift > 0 {
					return fmt.Errorf("value %d of %d: got a gap with a byte more than it needs", v, count)
				}
				break
			}
			if shift += 7; shift > 28 {
				return fmt.Errorf("value %d of %d: got a gap of more than 5 bytes", v, count)
			}
		}
		if next += gap; next >= uint64(n) {
			return fmt.Errorf("value %d of %d: got index %d of %d values", v, count, next, n)
		}
		next++
	}
	if i != len(indices) {
		return fmt.Errorf("got %d bytes of gaps, want %d", len(indices), i)
	}
	return nil
}

func checkBitmap(indices []byte, count, n int) error {
	if len(indices) != bitmapLen(n) {
		return fmt.Errorf("got a bitmap of %d bytes, want %d", len(indices), bitmapLen(n))
	}
	set, gaps, next := 0, 0, uint32(0)
	for i, b := range indices {
		for ; b != 0; b &= b - 1 {
			at := uint32(8*i + bits.TrailingZeros8(b))
			set++
			gaps += gapLen(at - next)
			next = at + 1
		}
	}
	switch {
	case int(next) > n:
		return fmt.Errorf("got index %d of %d values", next-1, n)
	case set != count:
		return fmt.Errorf("got %d bits set, want %d", set, count)
	case gaps <= len(indices):
		return errors.New("got a bitmap where gaps are no longer")
	}
	return nil
}

// AddDecodedTopK adds to dst what a code says that CheckTopK has found in order.
func AddDecodedTopK(dst []float32, code []byte) {
	if len(code) == 4*len(dst) {
		for i := range dst {
			dst[i] += math.Float32frombits(order.LittleEndian.Uint32(code[4*i:]))
		}
		return
	}
	count := int(order.LittleEndian.Uint32(code))
	values, indices := code[topKHeader:topKHeader+4*count], code[topKHeader+4*count:]
	if order.LittleEndian.Uint32(code[4:]) == formBitmap {
		v := 0
		for i, b := range indices {
			for ; b != 0; b &= b - 1 {
				dst[8*i+bits.TrailingZeros8(b)] += math.Float32frombits(order.LittleEndian.Uint32(values[v:]))
				v += 4
			}
		}
		return
	}
	next, i := 0, 0
	for v := 0; v < len(values); v += 4 {
		b := indices[i]
		i++
		gap := int(b & 0x7f)
		for shift := 7; b >= 0x80; shift += 7 {
			b = indices[i]
			i++
			gap |= int(b&0x7f) << shift
		}
		next += gap
		dst[next] += math.Float32frombits(order.LittleEndian.Uint32(values[v:]))
		next++
	}
}
