package shard

import (
	"math/bits"
	"slices"
	"sync"
	"unsafe"

	"github.com/paragon-train/paragon/internal/shm"
)

// A Buffer is memory for one payload, aligned for every kind of number in it. It has one owner at a time, who hands it on or
// calls Release; after that it must not be touched.
type Buffer struct {
	words []uint64
	pool  *Pool
	class int
	part  bool // of a slab, whose memory the collector has back only with all of it
	empty bool // its pages are the system's, see Sweep; it holds zeros
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

// Release gives the memory back. Releasing nil does nothing.
func (b *Buffer) Release() {
	if b != nil && b.pool != nil {
		b.pool.put(b)
	}
}

// A Pool keeps released Buffers for reuse, by size class: four to each power of two, so that at most a fifth of a buffer
// is unused. Its zero value is ready and its methods may be called together. It keeps at most MaxIdle bytes; what comes
// back beyond that is left to the garbage collector, except pieces of shared memory. Sweep gives back what is not needed any more.
type Pool struct {
	MaxIdle int64 // zero: 1 GiB
	// Shared takes buffers from memory that other processes of the host can map, so that they copy values from where they lie.
	Shared bool

	mu    sync.Mutex // guards all below
	free  [classes][]*Buffer
	least [classes]int // the fewest that free had since the last Sweep
	idle  int64        // bytes of free with pages
	taken int64
	slab  []uint64 // what is left of it
	slabs int      // words of all slabs
}

const (
	minWords = 8
	classes  = 4 * 64
)

// Shared memory is taken in slabs, since each block of it is a descriptor and a mapping in every worker. A slab is as large as all before it
// together, within these bounds: the collector counts all of it as in use.
const (
	firstSlab = 4 << 20 / 8
	slabWords = 32 << 20 / 8
)

// newBuffer returns a Buffer of n zeros that belongs to no Pool.
func newBuffer(n int) *Buffer { return &Buffer{words: make([]uint64, (n+7)/8)} }

// Get returns a Buffer of at least n bytes. What it holds is not defined.
func (p *Pool) Get(n int) *Buffer {
	b, _ := p.get(n)
	return b
}

// zeroed returns a Buffer of n bytes that are all zero. Memory that is new is so already, and is not touched: a large table
// takes memory as its rows are.
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
		if slab == nil { // this system has no such memory, or this process has as much as it may
			return make([]uint64, n), false
		}
		p.slab = slab
		p.slabs += size
	}
	words = p.slab[:n:n]
	p.slab = p.slab[n:]
	return words, true
}

// Sweep gives back what was not needed since the last Sweep: ordinary memory is left to the garbage collector, and the pages of shared
// memory go to the system at once. The addresses of shared memory stay for the next use, so that processes that have it mapped need not map
// other memory instead. It returns the bytes that it gave back. Whoever owns the pool calls it every so often.
func (p *Pool) Sweep() (given int64) {
	for class := range p.free {
		p.mu.Lock()
		n := p.least[class]
		spare := slices.Clone(p.free[class][:n]) // the longest there: Get takes the newest
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

// Taken returns how many bytes are handed out at the moment.
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

// classOf returns the smallest class that holds n words, and its size: 8, 10, 12, 14, 16, 20, 24, 28, 32, ... words.
func classOf(n int) (class, words int) {
	if n <= minWords {
		return 0, minWords
	}
	octave := bits.Len(uint(n-1)) - 1 // 2^octave < n <= 2^(octave+1)
	quarter := 1 << (octave - 2)
	steps := (n - 1<<octave + quarter - 1) / quarter
	return 4*(octave-3) + steps, 1<<octave + steps*quarter
}

// littleEndian reports whether numbers in memory look as they do on the wire. New refuses to work where they don't.
func littleEndian() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 1
}
