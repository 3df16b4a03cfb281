package shard

import (
	"math/bits"
	"slices"
	"sync"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/shm"
)

// A Buffer is memory for one payload, aligned for every type of number. It has one owner at a time,
// which passes it on or calls Release; after that it must not touch it.
type Buffer struct {
	words []uint64
	pool  *Pool
	class int
	// part says that the words are part of a slab, which the collector frees only as a whole.
	part bool
	// empty says that Sweep has returned the pages to the system; they read as zeros.
	empty bool
}

// Bytes returns the first n bytes.
func (b *Buffer) Bytes(n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(b.words))), 8*len(b.words))[:n:n]
}

// Float32s returns the first n numbers as float32.
func (b *Buffer) Float32s(n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b.words))), 2*len(b.words))[:n:n]
}

// Int64s returns the first n numbers as int64.
func (b *Buffer) Int64s(n int) []int64 {
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(b.words))), len(b.words))[:n:n]
}

// Release returns the memory to its Pool. Releasing nil does nothing.
func (b *Buffer) Release() {
	if b != nil && b.pool != nil {
		b.pool.put(b)
	}
}

// A Pool keeps released Buffers for reuse, by size class: four to each power of two, so that at
// most a fifth of a buffer is unused. Its zero value is ready to use and its methods may be called
// concurrently. It keeps at most MaxIdle bytes; Buffers released beyond that are left to the
// garbage collector, except those of shared memory. Sweep frees memory that is no longer needed.
type Pool struct {
	// MaxIdle bounds the bytes that are kept. Zero: 1 GiB.
	MaxIdle int64
	// Shared allocates buffers in memory that other processes of the host can map, so that they
	// read values in place.
	Shared bool

	// unused is of the shards that use the pool.
	unused freeLists

	// mu guards all below.
	mu   sync.Mutex
	free [classes][]*Buffer
	// least has, by class, the smallest length of free since the last Sweep.
	least [classes]int
	// idle is the bytes of free whose pages are in memory, and taken those that are in use.
	idle  int64
	taken int64
	// slab is the unused rest of the newest slab.
	slab []uint64
	// slabs is the number of words of all slabs.
	slabs int
}

const (
	// smallWords is the number of words up to which each size has a class of its own.
	smallWords = 8
	classes    = 4 * 64
)

// Shared memory is allocated in slabs, because each block costs a file descriptor and a mapping in
// every worker. A slab is as large as all before it together, within these bounds: the collector
// counts a whole slab as in use.
const (
	firstSlab = 4 << 20 / 8
	slabWords = 32 << 20 / 8
)

// newBuffer returns a Buffer of n zeros that belongs to no Pool.
func newBuffer(n int) *Buffer { return &Buffer{words: make([]uint64, (n+7)/8)} }

// Get returns a Buffer of at least n bytes, with undefined content.
func (p *Pool) Get(n int) *Buffer {
	b, _ := p.get(n)
	return b
}

// zeroed returns a Buffer of n zero bytes. New memory is zero already and is not touched, so that a
// large table takes memory only for the rows that are used.
func (p *Pool) zeroed(n int) *Buffer {
	b, used := p.get(n)
	if used {
		clear(b.Bytes(n))
	}
	return b
}

func (p *Pool) get(n int) (b *Buffer, used bool) {
	class, words := classOf((n + 7) / 8)
	p.mu.Lock()
	p.taken += int64(8 * words)
	if list := p.free[class]; len(list) > 0 {
		b := list[len(list)-1]
		list[len(list)-1] = nil
		p.free[class] = list[:len(list)-1]
		p.least[class] = min(p.least[class], len(list)-1)
		used = !b.empty
		if used {
			p.idle -= int64(8 * words)
		}
		b.empty = false
		p.mu.Unlock()
		return b, used
	}
	p.mu.Unlock()
	b = &Buffer{pool: p, class: class}
	b.words, b.part = p.fresh(words)
	return b, false
}

// fresh returns n new words, and whether they are part of a slab.
func (p *Pool) fresh(n int) (words []uint64, part bool) {
	switch {
	case !p.Shared || n < shm.MinBytes/8:
		return make([]uint64, n), false
	case n > slabWords/4:
		return shm.Words(n), false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > len(p.slab) {
		size := min(max(firstSlab, 4*n, p.slabs), slabWords)
		slab := shm.Shared(size)
		if slab == nil {
			// There is no shared memory on this system, or this process has reached its
			// limit.
			return make([]uint64, n), false
		}
		p.slab = slab
		p.slabs += size
	}
	words = p.slab[:n:n]
	p.slab = p.slab[n:]
	return words, true
}

// Sweep frees the Buffers that were not needed since the last Sweep, and returns their bytes.
// Ordinary memory is left to the garbage collector; the pages of shared memory go back to the
// system at once. Their addresses are kept for reuse, so that processes that have mapped them need
// no new mapping. The pool's owner calls Sweep at regular intervals.
func (p *Pool) Sweep() (given int64) {
	for class := range p.free {
		p.mu.Lock()
		n := p.least[class]
		// Get takes the newest of the list, so these are the oldest.
		spare := slices.Clone(p.free[class][:n])
		p.free[class] = slices.Delete(p.free[class], 0, n)
		p.least[class] = len(p.free[class])
		p.mu.Unlock()
		if n == 0 {
			continue
		}
		gone := int64(0)
		kept := slices.DeleteFunc(spare, func(b *Buffer) bool {
			if b.empty {
				return false
			}
			size := 8 * len(b.words)
			if b.empty = shm.Discard(b.Bytes(size)); b.empty || !b.part {
				gone += int64(size)
			}
			return !b.empty && !b.part
		})
		p.mu.Lock()
		p.free[class] = slices.Insert(p.free[class], 0, kept...)
		p.least[class] += len(kept)
		p.idle -= gone
		p.mu.Unlock()
		given += gone
	}
	return given
}

// Taken returns how many bytes are in use now.
func (p *Pool) Taken() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

func (p *Pool) put(b *Buffer) {
	size := int64(8 * len(b.words))
	limit := p.MaxIdle
	if limit == 0 {
		limit = 1 << 30
	}
	p.mu.Lock()
	p.taken -= size
	if b.part || p.idle+size <= limit {
		p.idle += size
		p.free[b.class] = append(p.free[b.class], b)
	}
	p.mu.Unlock()
}

// classOf returns the smallest class that holds n words, and its size: 1, 2, 3, ... 8, 10, 12, 14,
// 16, 20, 24, 28, 32, ... words.
func classOf(n int) (class, words int) {
	if n <= smallWords {
		words = max(n, 1)
		return words - 1, words
	}
	octave := bits.Len(uint(n-1)) - 1 // 2^octave < n <= 2^(octave+1)
	quarter := 1 << (octave - 2)
	steps := (n - 1<<octave + quarter - 1) / quarter
	return smallWords - 1 + 4*(octave-3) + steps, 1<<octave + steps*quarter
}

// littleEndian reports whether numbers in memory have the byte order of the wire. New is an error
// where they do not.
func littleEndian() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 1
}
