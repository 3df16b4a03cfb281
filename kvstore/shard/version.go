package shard

import "unsafe"

// A Version is a dense shard's value after some round. It does not change until Release.
type Version struct {
	shard      *Shard
	data       *Buffer
	round      uint64
	generation uint64
	readers    int // guarded by the shard's mutex
}

// Round returns the number of rounds that the value contains.
func (v *Version) Round() uint64 { return v.round }

// Generation returns the generation under which the newest of them closed.
func (v *Version) Generation() uint64 { return v.generation }

// Float32s returns the value, which must not be written.
func (v *Version) Float32s() []float32 { return v.data.Float32s(v.shard.n) }

// Bytes returns the value as it travels: little-endian float32.
func (v *Version) Bytes() []byte { return v.data.Bytes(4 * v.shard.n) }

// Release ends the use of the value. It is called once for each Version that was handed out.
func (v *Version) Release() {
	s := v.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(v)
}

// acquire hands the newest Version to one more reader. Values of rows are changed in place and have no Versions.
func (s *Shard) acquire() *Version {
	if s.numRows > 0 || s.cfg.RowLen > 0 {
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
		s.spareVersion = append(s.spareVersion, v)
	}
}

// writable returns the value's numbers for a change in place. If somebody still reads them, a copy takes their place first.
func (s *Shard) writable() []float32 {
	if s.current.readers > 0 {
		old := s.current.Float32s()
		s.replace(s.pool.Get(4 * s.n))
		copy(s.current.Float32s(), old)
	}
	return s.current.Float32s()
}

// replace makes data the newest value's memory.
func (s *Shard) replace(data *Buffer) {
	if s.current.readers == 0 {
		s.current.data.Release()
		s.current.data = data
		return
	}
	var v *Version
	if k := len(s.spareVersion); k > 0 {
		v, s.spareVersion = s.spareVersion[k-1], s.spareVersion[:k-1]
	} else {
		v = &Version{shard: s}
	}
	v.data = data
	s.current = v
}

// publish says which round the value now contains.
func (s *Shard) publish() {
	s.current.round, s.current.generation = s.rounds, s.generation
}

// view returns the bytes of f, which must come from this process's memory as float32.
func view(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}
