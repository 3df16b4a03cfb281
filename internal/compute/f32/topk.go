package f32

import (
	"fmt"
	"math"
)

// A TopK chooses the values of largest magnitude. Its zero value is ready; it keeps memory for the
// next choice, about 24 bytes for each value chosen, and serves one goroutine at a time.
//
// What it chooses is exact, whatever the path: the k values largest in magnitude that are not zero,
// of equal ones those that come first; a NaN counts as larger than an infinity. A radix select over
// the 31 bits of the magnitude finds the k-th largest. Over a long slice a sample says first how
// large a value must be to come into question, as in Lin, Han, Mao, Wang and Dally, "Deep Gradient
// Compression", ICLR 2018, so that most values are read once; where the sample misleads, the select
// goes over all of them.
type TopK struct {
	found []uint32

	// values are those of the sample, or those found.
	values []float32
	counts [2048]uint32
}

const (
	// magnitude is the bits of a float32 without its sign.
	magnitude = 0x7fffffff

	// lanes is how many entries collect may write beyond the last.
	lanes = 16
)

// choose returns the indices of the k values of x that are largest in magnitude, rising; fewer
// where fewer are not zero. They are valid until the next call.
func (t *TopK) choose(x []float32, k int) []uint32 {
	if k <= 0 {
		return nil
	}
	if n := len(x); n > 4*sampleLeast && k <= n/4 {
		room := resize(&t.found, 3*k+1024)

		// The room is for the sample, then for what is found.
		resize(&t.values, max(sampleLen(n), len(room)))
		low := max(t.guess(x, k), 1)
		done, count := kernels.collect(room, x, low)
		if done == n && (count >= k || low == 1) {
			return t.trim(room[:count], x, k)
		}
	}
	room := resize(&t.found, k+lanes)
	least, equal := t.radix(x, k)

	// Then fewer than k are not zero.
	if least == 0 {
		_, count := kernels.collect(room, x, 1)
		return room[:count]
	}
	count := 0
	for i, v := range x {
		m := math.Float32bits(v) & magnitude
		if m < least {
			continue
		}
		if m == least {
			if equal == 0 {
				continue
			}
			equal--
		}
		room[count] = uint32(i)
		count++
	}
	return room[:count]
}

const sampleLeast = 4096

func sampleLen(n int) int { return sampleLeast + n/256 }

// guess returns a magnitude that somewhat more than k values of x reach, as far as a sample can
// tell.
func (t *TopK) guess(x []float32, k int) uint32 {
	m := sampleLen(len(x))
	sample := resize(&t.values, m)
	step := uint64(len(x)) << 16 / uint64(m) // 16 bits behind the point
	for i := range sample {
		sample[i] = x[uint64(i)*step>>16]
	}
	share := float64(m) * float64(k) / float64(len(x))
	low, _ := t.radix(sample, min(m, int(1.25*share+3*math.Sqrt(share))+4))
	return low
}

// trim keeps the k largest of the values of x that were found.
func (t *TopK) trim(found []uint32, x []float32, k int) []uint32 {
	if len(found) <= k {
		return found
	}
	values := resize(&t.values, len(found))
	for i, at := range found {
		values[i] = x[at]
	}
	least, equal := t.radix(values, k)
	count := 0
	for i, at := range found {
		m := math.Float32bits(values[i]) & magnitude
		if m < least {
			continue
		}
		if m == least {
			if equal == 0 {
				continue
			}
			equal--
		}
		found[count] = at
		count++
	}
	return found[:count]
}

// radix returns the k-th largest magnitude of x, 1 ≤ k ≤ len(x), and how many values that have just
// it are among the k largest.
func (t *TopK) radix(x []float32, k int) (least uint32, equal int) {
	if k < 1 || k > len(x) {
		panic(fmt.Sprintf("f32: TopK: the %d-th largest of %d values", k, len(x)))
	}

	// mask and prefix are those of the digits that are known.
	mask, prefix := uint32(0), uint32(0)
	for _, digit := range [...]struct{ shift, bits int }{{20, 11}, {10, 10}, {0, 10}} {
		counts := t.counts[:1<<digit.bits]
		clear(counts)
		part := uint32(len(counts) - 1)
		if mask == 0 {
			for _, v := range x {
				counts[math.Float32bits(v)>>digit.shift&part]++
			}
		} else {
			for _, v := range x {
				if b := math.Float32bits(v); b&mask == prefix {
					counts[b>>digit.shift&part]++
				}
			}
		}
		d := len(counts) - 1
		for int(counts[d]) < k {
			k -= int(counts[d])
			d--
		}
		prefix |= uint32(d) << digit.shift
		mask |= part << digit.shift
	}
	return prefix, k
}

// collectPortable writes to found the indices of values of at least the magnitude low, which is
// above 0, and returns how many values it has read and how many it has found. It stops where fewer
// than lanes entries of room are left.
func collectPortable(found []uint32, x []float32, low uint32) (done, count int) {
	return collectFrom(found, 0, x, 0, low)
}

func collectFrom(found []uint32, count int, x []float32, from int, low uint32) (done, _ int) {
	for i := from; i < len(x); i++ {
		if math.Float32bits(x[i])&magnitude < low {
			continue
		}
		if count+lanes > len(found) {
			return i, count
		}
		found[count] = uint32(i)
		count++
	}
	return len(x), count
}

// resize returns *buffer with length n, made anew only if it is too small. Its content is not kept.
func resize[T any](buffer *[]T, n int) []T {
	if cap(*buffer) < n {
		*buffer = make([]T, n)
	}
	*buffer = (*buffer)[:n]
	return *buffer
}
