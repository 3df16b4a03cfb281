package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/shm"
)

const (
	// wordCount is the number of completion words.
	wordCount = 1024
	// maxSlots is the most slots of a region.
	maxSlots = 4096
	// maxRegions is the most regions of a session. Each takes a descriptor.
	maxRegions = 384
)

// A region is memory that Python has mapped, too.
type region struct {
	// all is the memory; each its slots, which are parts of it.
	all  []float32
	each [][]float32
	// file is the descriptor of the memory, and block what it belongs to.
	file  int
	block block
	// renewing is held while a slot gets new memory.
	renewing sync.Mutex
	// users counts plans, and requests and exchanges under way, that have slots of it. memory.mu
	// guards it.
	users int
	// dropped says that it is freed with its last user.
	dropped bool
}

// regionResult describes a region: where its slots begin, and the size of its file.
type regionResult struct {
	Region  uint32   `json:"region"`
	Offsets []uint64 `json:"offsets"`
	Bytes   uint64   `json:"bytes"`
}

// newRegion makes a region. The number of blocks of a process is bounded, and those of regions that
// were freed go with the collector, which runs as memory is used and not as blocks are: where none
// is left it is called.
func newRegion(lengths []int) (*region, error) {
	const collections = 3
	for n := 0; ; n++ {
		r, err := tryRegion(lengths)
		if err == nil || n == collections {
			return r, err
		}
		collected := make(chan struct{})
		runtime.AddCleanup(new(uint64), func(c chan struct{}) { close(c) }, collected)
		runtime.GC()
		select {
		case <-collected:
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// tryRegion makes a region in a block of memory of its own, for which it must be large enough.
func tryRegion(lengths []int) (*region, error) {
	rest := shm.MinBytes / 4
	for _, n := range lengths {
		rest -= n
		if rest <= 0 {
			break
		}
	}
	if rest > 0 {
		// A last slot that nobody sees.
		lengths = append(lengths[:len(lengths):len(lengths)], rest)
	}
	r := &region{}
	r.each, r.all = shm.Slices(lengths...)
	if rest > 0 {
		r.each = r.each[:len(r.each)-1]
	}
	var err error
	r.block, r.file, err = fileOf(r.bytes())
	return r, err
}

// bytes is the region's memory as bytes.
func (r *region) bytes() []byte { return bytesOf(r.all) }

// size is the bytes of the region's file: whole pages.
func (r *region) size() uint64 { return pages(4 * len(r.all)) }

// bytesOf is the memory of values.
func bytesOf(values []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
}

// describe describes the region, whose number it does not know.
func (r *region) describe(number uint32) regionResult {
	d := regionResult{Region: number, Offsets: make([]uint64, len(r.each)), Bytes: r.size()}
	for i := range r.each {
		d.Offsets[i] = r.offset(i)
	}
	return d
}

// offset is where a slot begins, in bytes.
func (r *region) offset(slot int) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(r.each[slot]))) - uintptr(unsafe.Pointer(unsafe.SliceData(r.all))))
}

// settleSlot gives a slot back to Python after a call that may have lent it: one that a server has
// kept gets new memory, of which Python is told.
func (s *session) settleSlot(r *region, number uint32, slot int) (moved bool) {
	if 4*len(r.each[slot]) < shm.MinBytes {
		// Such memory is never lent.
		return false
	}
	fd, err := renew(r, slot)
	if err != nil {
		s.end(fmt.Errorf("bridge: region %d slot %d: a server has not given it back: %w", number, slot, err))
	}
	if fd < 0 {
		return false
	}
	s.log.Warn("a server has kept memory that was lent to it, and the slot gets other pages", "region", number, "slot", slot)
	defer syscall.Close(fd)
	s.note(movedNote{Note: "moved", Region: number, Offset: r.offset(slot), Bytes: pages(4 * len(r.each[slot]))}, fd)
	return true
}

// pages is a number of bytes, rounded up to whole pages.
func pages(n int) uint64 {
	page := uint64(os.Getpagesize())
	return (uint64(n) + page - 1) / page * page
}

// memory are the regions of a session, by number. Numbers are not used again.
type memory struct {
	mu      sync.Mutex
	regions map[uint32]*region
	last    uint32
	// leaving counts regions that are freed with their last users.
	leaving int
	// taken is the bytes of all, of at most most.
	taken, most uint64
}

// words makes region 0.
func (m *memory) words() (*region, error) {
	r, err := newRegion([]int{2 * wordCount})
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.regions == nil {
		m.regions = map[uint32]*region{}
	}
	m.regions[0] = r
	return r, nil
}

// makeRegion is the operation memory.
func makeRegion(_ context.Context, s *session, args json.RawMessage) (any, error) {
	var a struct {
		Lengths []int `json:"lengths"`
	}
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	number, r, err := s.memory.add(a.Lengths)
	if err != nil {
		return nil, err
	}
	return withFile{r.describe(number), r.file, r}, nil
}

// add makes a region of slots with so many values each.
func (m *memory) add(lengths []int) (uint32, *region, error) {
	if len(lengths) == 0 || len(lengths) > maxSlots {
		return 0, nil, usage("bridge: memory: got %d slots, want 1 to %d", len(lengths), maxSlots)
	}
	most, total := m.most, uint64(0)
	for i, n := range lengths {
		if n < 1 || uint64(n) > most/4 {
			return 0, nil, usage("bridge: memory: slot %d: got %d values, want 1 to %d", i, n, most/4)
		}
		total += 4 * uint64(n)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.regions) + m.leaving; n >= maxRegions {
		return 0, nil, usage("bridge: memory: there are %d regions, which is the most; free one, or make fewer, larger ones", n)
	}
	if m.taken+total > most {
		return 0, nil, usage("bridge: memory: got %d bytes in %d slots with %d bytes taken before, and the machine has %d", total, len(lengths), m.taken, most)
	}
	r, err := newRegion(lengths)
	if err != nil {
		return 0, nil, err
	}
	if m.regions == nil {
		m.regions = map[uint32]*region{}
	}
	m.last++
	m.regions[m.last] = r
	m.taken += r.size()
	return m.last, r, nil
}

// freeRegion is the operation free.
func freeRegion(_ context.Context, s *session, args json.RawMessage) (any, error) {
	var a struct {
		Region uint32 `json:"region"`
		// Later says that Python has no use for the region, if it is still there: what is
		// under way keeps it.
		Later bool `json:"later"`
	}
	if err := arguments(args, &a); err != nil {
		return nil, err
	}
	return nil, s.memory.free(a.Region, a.Later)
}

// free forgets a region that nothing uses, or with later once nothing does. Its memory is collected.
func (m *memory) free(number uint32, later bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.regions[number]
	switch {
	case r == nil && later:
		return nil
	case r == nil:
		return usage("bridge: free: there is no region %d", number)
	case number == 0:
		return usage("bridge: free: region 0 has the completion words, and stays")
	case r.users > 0 && later:
		delete(m.regions, number)
		r.dropped = true
		m.leaving++
		return nil
	case r.users > 0:
		return usage("bridge: free: region %d has %d users: plans, and requests and exchanges under way; drop the plans, and wait for the others", number, r.users)
	}
	delete(m.regions, number)
	m.taken -= r.size()
	return nil
}

// slot returns a slot's values, and the region, which the caller gives back.
func (m *memory) slot(number uint32, slot int) ([]float32, *region, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.regions[number]
	if r == nil || number == 0 {
		return nil, nil, usage("bridge: there is no region %d of values", number)
	}
	if slot < 0 || slot >= len(r.each) {
		return nil, nil, usage("bridge: region %d has no slot %d: it has %d", number, slot, len(r.each))
	}
	r.users++
	return r.each[slot], r, nil
}

// giveBack ends one use of a region.
func (m *memory) giveBack(r *region) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.users--; r.users == 0 && r.dropped {
		m.leaving--
		m.taken -= r.size()
	}
}
