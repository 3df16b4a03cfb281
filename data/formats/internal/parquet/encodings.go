package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Encodings of values and levels, by Parquet's numbers. Plain is one value after the other. A
// dictionary has numbers of values in place of values, as hybrid reads them; RLE is hybrid itself.
// Deltas are of numbers, of lengths, or of texts that share their beginnings. Split has the first
// bytes of all numbers, then the second bytes, and so on, which compresses better.
const (
	encodingPlain           = 0
	encodingPlainDictionary = 2
	encodingRLE             = 3
	encodingBitPacked       = 4
	encodingDelta           = 5
	encodingDeltaLength     = 6
	encodingDeltaBytes      = 7
	encodingDictionary      = 8
	encodingSplit           = 9
)

var errShort = errors.New("its values end too early")

// hybrid reads runs of equal numbers and of numbers packed into bits, as many as fit into dst.
func hybrid(dst []uint32, src []byte, width int) error {
	if width < 0 || width > 32 {
		return fmt.Errorf("its numbers have %d bits, want at most 32", width)
	}
	if width == 0 {
		clear(dst)
		return nil
	}
	for len(dst) > 0 {
		head, n := binary.Uvarint(src)
		if n <= 0 {
			return errShort
		}
		src = src[n:]
		if head&1 == 0 {
			size := (width + 7) / 8
			if len(src) < size {
				return errShort
			}
			var value uint32
			for i := range size {
				value |= uint32(src[i]) << (8 * i)
			}
			src = src[size:]
			run := dst[:min(uint64(len(dst)), head>>1)]
			for i := range run {
				run[i] = value
			}
			dst = dst[len(run):]
			if head>>1 == 0 && len(src) == 0 {
				return errShort
			}
			continue
		}
		count := uint64(len(dst))
		if groups := head >> 1; groups < count/8+1 {
			count = min(count, groups*8)
		}
		size := min(uint64(len(src)), (head>>1)*uint64(width))
		if head>>1 > uint64(len(src)) { // a product would overflow
			size = uint64(len(src))
		}
		if size*8 < count*uint64(width) {
			return errShort
		}
		unpack(dst[:count], src, width)
		dst, src = dst[count:], src[size:]
	}
	return nil
}

// unpack reads numbers of so many bits, the lowest first. src has enough of them.
func unpack(dst []uint32, src []byte, width int) {
	var bits uint64
	have := 0
	mask := uint64(1)<<width - 1
	at := 0
	for i := range dst {
		for have < width {
			if have <= 32 && at+4 <= len(src) {
				bits |= uint64(binary.LittleEndian.Uint32(src[at:])) << have
				at, have = at+4, have+32
				break
			}
			bits |= uint64(src[at]) << have
			at, have = at+1, have+8
		}
		dst[i] = uint32(bits & mask)
		bits >>= width
		have -= width
	}
}

// deltaNumbers reads numbers as differences, packed in blocks of their own widths, as many as fit
// into dst, and returns what follows them.
func deltaNumbers(dst []uint64, src []byte) (rest []byte, err error) {
	d := &deltas{src: src}
	block, parts, total := d.number(), d.number(), d.number()
	d.value = d.signed()
	switch {
	case d.err != nil:
		return nil, d.err
	case total != uint64(len(dst)):
		return nil, fmt.Errorf("it has %d numbers, want %d", total, len(dst))
	case parts == 0 || parts > 1<<16 || block > 1<<24 || block%parts != 0 || block/parts%8 != 0 || block == 0:
		return nil, fmt.Errorf("its blocks have %d numbers in %d parts", block, parts)
	}
	if len(dst) == 0 {
		return d.src, nil
	}
	dst[0], dst = d.value, dst[1:]
	each := int(block / parts)
	for len(dst) > 0 {
		least := d.signed()
		if d.err != nil {
			return nil, d.err
		}
		if uint64(len(d.src)) < parts {
			return nil, errShort
		}
		widths := d.src[:parts]
		d.src = d.src[parts:]
		for _, w := range widths {
			if len(dst) == 0 {
				break
			}
			n := min(each, len(dst))
			if err := d.part(dst[:n], int(w), each, least); err != nil {
				return nil, err
			}
			dst = dst[n:]
		}
	}
	return d.src, nil
}

// A deltas reads numbers that are packed as differences.
type deltas struct {
	// src is what is left.
	src []byte

	// value is the last number.
	value uint64

	err error
}

// number reads a number of as many bytes as it needs, and signed one with a sign.
func (d *deltas) number() uint64 {
	v, n := binary.Uvarint(d.src)
	if n <= 0 {
		d.err = errShort
		return 0
	}
	d.src = d.src[n:]
	return v
}

// signed reads a number whose lowest bit is its sign, so that small negative numbers are short,
// too.
func (d *deltas) signed() uint64 {
	v := d.number()
	return v>>1 ^ -(v & 1)
}

// part reads a part of a block, of each numbers of so many bits. The last part may be cut off
// behind the numbers of dst.
func (d *deltas) part(dst []uint64, width, each int, least uint64) error {
	if width > 64 {
		return fmt.Errorf("its numbers have %d bits, want at most 64", width)
	}
	size := width * each / 8
	if len(d.src) < size {
		if size = len(d.src); size < (width*len(dst)+7)/8 {
			return errShort
		}
	}
	unpackDeltas(dst, d.src, width, least, &d.value)
	d.src = d.src[size:]
	return nil
}

// unpackDeltas adds up differences of so many bits and the least one.
func unpackDeltas(dst []uint64, src []byte, width int, least uint64, value *uint64) {
	bit := 0
	for i := range dst {
		var d uint64
		for got := 0; got < width; {
			at, shift := bit/8, bit%8
			n := min(8-shift, width-got)
			d |= uint64(src[at]>>shift) & (1<<n - 1) << got
			got, bit = got+n, bit+n
		}
		*value += least + d
		dst[i] = *value
	}
}
