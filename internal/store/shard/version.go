package shard

import "github.com/paragon-train/paragon/internal/store/wire"

// A Version is a dense shard's value after some round. It does not change until Release.
//
// The newest Version of a shard changes in place at the end of a round if no one reads it. So the
// number of readers decides, under the shard's mutex, whether a round costs a copy.
type Version struct {
	// of is where the Version is handed out and returned. Nil: it lies in a free list.
	of         *readers
	data       *Buffer
	round      uint64
	generation uint64
	limit      float64
	weight     float64
	examples   uint64
	// norms is nil if nothing was measured.
	norms *wire.Norms
	// readers counts the uses; the shard's mutex guards it.
	readers int
	// half is the value in 16 bits, by codec, once a reader asked for it; the shard's mutex
	// guards it.
	half *[2]*Buffer
}

// Round returns the number of rounds that the value contains.
func (v *Version) Round() uint64 { return v.round }

// Generation returns the generation under which the newest of them closed.
func (v *Version) Generation() uint64 { return v.generation }

// Limit returns the largest norm of a contribution to the next round that the guard accepts
// unchanged; 0: any.
func (v *Version) Limit() float64 { return v.limit }

// Norms returns what was measured of the newest round; Count 0: nothing.
func (v *Version) Norms() wire.Norms {
	if v.norms == nil {
		return wire.Norms{}
	}
	return *v.norms
}

func (v *Version) setNorms(n wire.Norms) {
	if v.norms == nil {
		if n == (wire.Norms{}) {
			return
		}
		v.norms = new(wire.Norms)
	}
	*v.norms = n
}

// Weight returns the sum of the weights of the contributions in the newest round, without those
// that the guard has refused.
func (v *Version) Weight() float64 { return v.weight }

// Examples returns the sum of their examples.
func (v *Version) Examples() uint64 { return v.examples }

// Float32s returns the value, which must not be changed.
func (v *Version) Float32s() []float32 { return v.data.Float32s(v.of.cfg.values()) }

// Bytes returns the value as it is sent: little-endian float32.
func (v *Version) Bytes() []byte { return v.data.Bytes(4 * v.of.cfg.values()) }

// Encoded returns the value in a 16-bit codec, or as Bytes does. It is valid until Release. The
// value is encoded once for all readers.
func (v *Version) Encoded(codec uint8) ([]byte, error) {
	if codec == wire.CodecFloat32 {
		return v.Bytes(), nil
	}
	i := int(codec) - int(wire.CodecFloat16)
	if i < 0 || i >= 2 {
		return nil, v.of.cfg.refuse(wire.CodeUnsupported, "got codec %d for a value, want float32 (0), float16 (1) or bfloat16 (2)", codec)
	}
	r := v.of
	r.mu.Lock()
	defer r.mu.Unlock()
	if v.half == nil {
		v.half = new([2]*Buffer)
	}
	half := v.half
	if half[i] == nil {
		b, err := Encode(r.cfg.Pool, codec, v.Float32s())
		if err != nil {
			return nil, err
		}
		half[i] = b
	}
	return half[i].Bytes(2 * r.cfg.values()), nil
}

// forgetHalf frees what Encoded made, before the value changes or is freed.
func (v *Version) forgetHalf() {
	if v.half == nil {
		return
	}
	for i, b := range v.half {
		b.Release()
		v.half[i] = nil
	}
}

// free releases all memory of a Version that no one reads.
func (v *Version) free() {
	v.data.Release()
	v.data = nil
	v.forgetHalf()
}

// Release ends the use of the value. It must be called once for each Version returned.
func (v *Version) Release() {
	r := v.of
	if r == nil {
		panic("shard: Version released twice")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release(v)
}
