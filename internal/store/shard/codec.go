package shard

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// PayloadSize returns the smallest and the largest size, in bytes, of n values in a codec of
// package wire.
func PayloadSize(codec uint8, n int) (least, most int, err error) {
	switch codec {
	case wire.CodecFloat32:
		least = 4 * n
	case wire.CodecFloat16, wire.CodecBFloat16:
		least = 2 * n
	case wire.Codec2Bit:
		least = f32.Code2BitLen(n)
	case wire.Codec1Bit:
		least = f32.Code1BitLen(n)
	case wire.CodecTopK:
		return min(8, 4*n), 4 * n, nil
	default:
		return 0, 0, fmt.Errorf("got codec %d, want 0 to %d", codec, wire.CodecTopK)
	}
	return least, least, nil
}

// A payload is a contribution's data, as received.
type payload struct {
	data *Buffer
	// count is rows of a shard of rows, or bytes of wire.CodecTopK.
	count     int
	threshold float32
	codec     uint8
	// lent says that the slot's loan has the values in place of data, as float32.
	lent bool
}

// payloadOf returns a contribution's payload.
func payloadOf(c *Contribution) payload {
	p := payload{data: c.Data, codec: c.Codec, threshold: c.Threshold, count: c.Rows, lent: c.Loan != nil}
	if c.Codec == wire.CodecTopK {
		p.count = c.Size
	}
	return p
}

// decodeTo writes the payload's values to dst, all of which it overwrites.
func (p *payload) decodeTo(dst []float32) {
	switch p.codec {
	case wire.CodecFloat32:
		copy(dst, p.data.Float32s(len(dst)))
	case wire.CodecFloat16, wire.CodecBFloat16:
		p.decodePart(dst, 0)
	default:
		clear(dst)
		p.addTo(dst, nil)
	}
}

// addTo adds the payload's values to dst. Values of 16 bits are decoded a part at a time, into
// memory of the pool, and then added like others: a decoding addition of its own would have to be
// as fast in every instruction set. Codes that are mostly zero are added without decoding, so that
// they cost by what they hold.
func (p *payload) addTo(dst []float32, pool *Pool) {
	switch p.codec {
	case wire.CodecFloat32:
		f32.AddTo(dst, p.data.Float32s(len(dst)))
	case wire.CodecFloat16, wire.CodecBFloat16:
		scratch := pool.Get(4 * partLen)
		defer scratch.Release()
		part := scratch.Float32s(partLen)
		for from := 0; from < len(dst); from += len(part) {
			to := min(from+len(part), len(dst))
			x := part[:to-from]
			p.decodePart(x, from)
			f32.AddTo(dst[from:to], x)
		}
	case wire.Codec2Bit:
		f32.AddDecoded2Bit(dst, p.data.Bytes(f32.Code2BitLen(len(dst))), p.threshold)
	case wire.Codec1Bit:
		f32.AddDecoded1Bit(dst, p.data.Bytes(f32.Code1BitLen(len(dst))))
	case wire.CodecTopK:
		f32.AddDecodedTopK(dst, p.data.Bytes(p.count))
	}
}

// partLen values fit the first-level cache.
const partLen = 1024

// decodePart decodes 16-bit values to dst, beginning with value number from.
func (p *payload) decodePart(dst []float32, from int) {
	halves := p.halves(from, from+len(dst))
	if p.codec == wire.CodecFloat16 {
		f32.FromFloat16(dst, halves)
	} else {
		f32.FromBFloat16(dst, halves)
	}
}

func (p *payload) halves(from, to int) []uint16 {
	return p.data.uint16s(to)[from:]
}

func (b *Buffer) uint16s(n int) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b.words))), 4*len(b.words))[:n:n]
}

// Encode encodes values, in memory of the pool that the caller releases, for an answer: as float32,
// float16 or bfloat16.
func Encode(pool *Pool, codec uint8, values []float32) (*Buffer, error) {
	switch codec {
	case wire.CodecFloat32:
		b := pool.Get(4 * len(values))
		copy(b.Float32s(len(values)), values)
		return b, nil
	case wire.CodecFloat16:
		b := pool.Get(2 * len(values))
		f32.ToFloat16(b.uint16s(len(values)), values)
		return b, nil
	case wire.CodecBFloat16:
		b := pool.Get(2 * len(values))
		f32.ToBFloat16(b.uint16s(len(values)), values)
		return b, nil
	}
	return nil, fmt.Errorf("got codec %d, want float32 (0), float16 (1) or bfloat16 (2)", codec)
}

const maxWeight = math.MaxFloat32
