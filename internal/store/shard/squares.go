package shard

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// normOf returns a contribution's norm divided by its weight, in one pass. It is NaN or infinite if
// any value is. The squares are summed in float64, in which no float32's square overflows, in the
// same order on every machine.
func (cfg *Config) normOf(c *Contribution) float64 {
	norm := math.Sqrt(cfg.squaresOf(c))
	if c.Weight > 0 {
		norm /= float64(c.Weight)
	}
	return norm
}

// squaresOf returns the sum of the squares of a contribution's values, decoded. Codes of one and
// two bits have one magnitude, so that counting them is enough.
func (cfg *Config) squaresOf(c *Contribution) float64 {
	if cfg.RowLen > 0 {
		p := payload{data: c.Data, count: c.Rows}
		_, values := p.rowValues(int(cfg.RowLen))
		return f32.Squares(values)
	}
	if cfg.values() == 0 {
		return 0
	}
	switch c.Codec {
	case wire.CodecFloat16, wire.CodecBFloat16:
		p := payload{data: c.Data, codec: c.Codec}
		sum := 0.0
		scratch := cfg.Pool.Get(4 * partLen)
		defer scratch.Release()
		part := scratch.Float32s(partLen)
		for from := 0; from < cfg.values(); from += len(part) {
			to := min(from+len(part), cfg.values())
			p.decodePart(part[:to-from], from)
			sum += f32.Squares(part[:to-from])
		}
		return sum
	case wire.Codec2Bit:
		return float64(c.Threshold) * float64(c.Threshold) * float64(nonZeros(c.Data.Bytes(f32.Code2BitLen(cfg.values()))))
	case wire.Codec1Bit:
		return float64(cfg.values())
	case wire.CodecTopK:
		if c.Size == 4*cfg.values() {
			break
		}
		count := int(binary.LittleEndian.Uint32(c.Data.Bytes(4)))
		return f32.Squares(c.Data.Float32s(2 + count)[2:])
	}
	return f32.Squares(c.Data.Float32s(cfg.values()))
}

// nonZeros counts, eight bytes at a time, the codes of wire.Codec2Bit that are not zero, which have
// their upper bit set.
func nonZeros(code []byte) int {
	n := 0
	for ; len(code) >= 8; code = code[8:] {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(code) & 0xaaaaaaaaaaaaaaaa)
	}
	for _, b := range code {
		n += bits.OnesCount8(b & 0xaa)
	}
	return n
}

// shrink scales a payload's values in place, or in new memory if its codec cannot hold them. The
// memory is the shard's: Push has taken it, and loans are not judged.
func (cfg *Config) shrink(p *payload, by float32) {
	if cfg.RowLen > 0 {
		_, values := p.rowValues(int(cfg.RowLen))
		f32.Scale(values, by, values)
		return
	}
	if p.codec != wire.CodecFloat32 {
		data := cfg.Pool.Get(4 * cfg.values())
		p.decodeTo(data.Float32s(cfg.values()))
		p.data.Release()
		*p = payload{data: data}
	}
	values := p.data.Float32s(cfg.values())
	f32.Scale(values, by, values)
}
