package shard

import "math/bits"

// A Spread maps each row of a key to a shard and a row number there. All nodes of a job use the
// same one.
//
// The rows of a key are divided into groups of as many rows as there are shards; each shard gets
// one row of each group. A group is rotated by a hash of its number, so that rows at regular
// distances, as columns of features are laid out, are spread, too:
//
//	q = r / n, shard = (r + turn(q)) mod n, row of the shard = q
//
// An incomplete last group is not rotated. A row of an open vocabulary goes to a shard by a hash of
// its ID, and keeps its ID there. With row frequencies by Zipf's law each shard then has its share
// of the most frequent rows.
type Spread struct {
	shards uint64
	// rows is 0 for an open vocabulary, and whole is the number of complete groups.
	rows  uint64
	whole uint64
	// magic is ⌈2⁶⁴/shards⌉ if multiplying by it divides exactly, else 0.
	magic uint64
}

// NewSpread returns the Spread of a key with numRows rows (0: an open vocabulary) over shards.
func NewSpread(numRows uint64, shards int) Spread {
	n := uint64(shards)
	s := Spread{shards: n, rows: numRows, whole: numRows / n}
	// It is exact for operands of 32 bits (Lemire, Kaser and Kurz 2019).
	if n > 1 && n < 1<<32 && numRows <= 1<<32 {
		s.magic = ^uint64(0)/n + 1
	}
	return s
}

// Of returns the shard of a row and the row's number there (for an open vocabulary, its ID).
func (s *Spread) Of(row int64) (shard int, at int64) {
	n, r := s.shards, uint64(row)
	if s.rows == 0 {
		shard, _ := bits.Mul64(Mix(r), n)
		return int(shard), row
	}
	if n == 1 {
		return 0, row
	}
	var q uint64
	if s.magic != 0 {
		q, _ = bits.Mul64(s.magic, r)
	} else {
		q = r / n
	}
	m := r - q*n
	if q < s.whole {
		m += s.turn(q)
		if m >= n {
			m -= n
		}
	}
	return int(m), int64(q)
}

// Row is the inverse of Of.
func (s *Spread) Row(shard int, at int64) int64 {
	if s.rows == 0 {
		return at
	}
	n, q, m := s.shards, uint64(at), uint64(shard)
	if q < s.whole && n > 1 {
		m += n - s.turn(q)
		if m >= n {
			m -= n
		}
	}
	return int64(q*n + m)
}

func (s *Spread) turn(q uint64) uint64 {
	t, _ := bits.Mul64(Mix(q), s.shards)
	return t
}

// Mix is the finaliser of SplitMix64 (Steele, Lea and Flood 2014) on x + 0x9e3779b97f4a7c15: a
// bijection whose every bit depends on all of x.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Open reports whether this is the Spread of an open vocabulary.
func (s *Spread) Open() bool { return s.rows == 0 }

// Rows returns the number of rows of the key; 0 for an open vocabulary.
func (s *Spread) Rows() uint64 { return s.rows }

// Len returns the number of rows of a shard.
func (s *Spread) Len(shard int) uint64 { return (s.rows + s.shards - 1 - uint64(shard)) / s.shards }
