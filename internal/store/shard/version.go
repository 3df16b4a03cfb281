package shard

import "github.com/paragon-train/paragon/internal/store/wire"

// A Version is a dense shard's value after some round. It does not change until Release.
type Version struct {
	shard      *Shard
	data       *Buffer
	round      uint64
	generation uint64
	limit      float64
	weight     float64
	examples   uint64
	norms      *wire.Norms // nil: nothing was measured
	readers    int         // guarded by the shard's mutex
	half       *[2]*Buffer // the value in 16 bits, by codec, once a reader asked for it; guarded by the shard's mutex
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
func (v *Version) Float32s() []float32 { return v.data.Float32s(v.shard.n) }

// Bytes returns the value as it is sent: little-endian float32.
func (v *Version) Bytes() []byte { return v.data.Bytes(4 * v.shard.n) }

// Encoded returns the value in a 16-bit codec, or as Bytes does. It is valid until Release. The
// value is encoded once for all readers.
func (v *Version) Encoded(codec uint8) ([]byte, error) {
	if codec == wire.CodecFloat32 {
		return v.Bytes(), nil
	}
	s := v.shard
	i := int(codec) - int(wire.CodecFloat16)
	if i < 0 || i >= 2 {
		return nil, s.refuse(wire.CodeUnsupported, "got codec %d for a value, want float32 (0), float16 (1) or bfloat16 (2)", codec)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.half == nil {
		v.half = new([2]*Buffer)
	}
	half := v.half
	if half[i] == nil {
		b, err := Encode(s.cfg.Pool, codec, v.Float32s())
		if err != nil {
			return nil, err
		}
		half[i] = b
	}
	return half[i].Bytes(2 * s.n), nil
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

// Release ends the use of the value. It must be called once for each Version returned.
func (v *Version) Release() {
	s := v.shard
	if s == nil {
		panic("shard: Version released twice")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(v)
}

// acquire returns the newest Version to one more reader. Shards of rows change their values in
// place and have no Versions.
func (s *Shard) acquire() *Version {
	if s.cfg.RowLen > 0 {
		return nil
	}
	s.current.readers++
	return s.current
}

func (s *Shard) release(v *Version) {
	if v.readers <= 0 {
		panic("shard: Version released twice")
	}
	v.readers--
	if v.readers == 0 && v != s.current {
		v.data.Release()
		v.data = nil
		v.forgetHalf()
		s.cfg.Pool.spare.keepVersion(v)
	}
}

// writable returns the value's numbers for a change in place. If a reader still holds them, a copy
// replaces them first.
func (s *Shard) writable() []float32 {
	if s.current.readers > 0 {
		old := s.current.Float32s()
		s.replace(s.cfg.Pool.Get(4 * s.n))
		copy(s.current.Float32s(), old)
	}
	return s.current.Float32s()
}

// replace makes data the newest value.
func (s *Shard) replace(data *Buffer) {
	if s.current.readers == 0 {
		s.current.data.Release()
		s.current.data = data
		return
	}
	v := s.cfg.Pool.spare.version()
	v.shard, v.data = s, data
	s.current = v
}

// publish sets the round that the value now contains.
func (s *Shard) publish() {
	s.current.forgetHalf()
	s.current.round, s.current.generation, s.current.limit = s.rounds, s.generation, s.valueLimit()
	s.current.weight = s.weight
	s.current.setNorms(s.norms())
}

// publishRound publishes the value of a round of so many examples. The number is set here, when the
// round's Version is in its place: while the round is applied, readers may still hold the current
// one, which must not change.
func (s *Shard) publishRound(examples uint64) {
	s.publish()
	s.current.examples = examples
}
