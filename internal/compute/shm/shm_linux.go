package shm

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Block is memory of this process with a file behind it.
type Block struct {
	// ID is one that no other block of this process has or had.
	ID uint64

	begin, end uintptr
	fd         int

	// pinned says that a device has pinned it (see Pinned).
	pinned atomic.Bool

	// ends are offsets at which slices end whose last page belongs to nothing else, in order.
	ends []int
}

// blocks are all blocks, by address. Readers take the slice as it is; it is replaced, never
// changed, under mu.
var (
	blocks atomic.Pointer[[]*Block]
	mu     sync.Mutex
	lastID uint64

	// stuck is memory that could not be given back.
	stuck []*uint64
)

// none says that the system has no such files. maxBlocks leaves descriptors for others: what is
// beyond is ordinary memory.
var none atomic.Bool

const maxBlocks = 512

var pageSize = uintptr(os.Getpagesize())

// words returns memory with a file behind it, or nil where that cannot be had. ends is for Block.
func words(n int, ends []int) []uint64 {
	if list := blocks.Load(); none.Load() || list != nil && len(*list) >= maxBlocks {
		return nil
	}
	length := (uintptr(n)*8 + pageSize - 1) &^ (pageSize - 1)
	fd, err := newFile(int64(length))
	if err != nil {
		none.Store(errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM))
		return nil
	}

	// Some page begins in its first pageSize bytes.
	all := make([]uint64, (length+pageSize)/8)
	base := unsafe.Pointer(unsafe.SliceData(all))
	skip := -uintptr(base) & (pageSize - 1)
	begin := unsafe.Add(base, skip)
	if err := replacePages(uintptr(begin), length, fd, unix.MAP_SHARED); err != nil {
		unix.Close(fd)
		none.Store(errors.Is(err, unix.ENOSYS))
		return nil
	}
	b := &Block{begin: uintptr(begin), end: uintptr(begin) + length, fd: fd, ends: ends}
	enter(b)
	// Every slice of the memory keeps its first word from being collected, and with it the
	// file's pages in place.
	runtime.SetFinalizer((*uint64)(base), b.leave)
	return unsafe.Slice((*uint64)(begin), n)
}

// newFile makes a file without a name, of a size that cannot be changed.
func newFile(size int64) (fd int, err error) {
	fd, err = unix.MemfdCreate("paragon-memory", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, err
	}
	if err = unix.Ftruncate(fd, size); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func enter(b *Block) {
	mu.Lock()
	defer mu.Unlock()
	lastID++
	b.ID = lastID
	var old []*Block
	if p := blocks.Load(); p != nil {
		old = *p
	}
	at, _ := slices.BinarySearchFunc(old, b.begin, byBegin)
	list := slices.Insert(slices.Clone(old), at, b)
	blocks.Store(&list)
}

func byBegin(b *Block, address uintptr) int {
	switch {
	case b.begin < address:
		return -1
	case b.begin > address:
		return 1
	}
	return 0
}

// leave replaces the file's pages by ordinary ones. No pointer to the memory is left, and the heap
// does not have it yet.
func (b *Block) leave(first *uint64) {
	mu.Lock()
	old := *blocks.Load()
	list := slices.DeleteFunc(slices.Clone(old), func(o *Block) bool { return o == b })
	blocks.Store(&list)
	mu.Unlock()
	// Peers that still have the file mapped would keep its pages.
	unix.Fallocate(b.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, int64(b.end-b.begin))
	unix.Close(b.fd)
	if err := replacePages(b.begin, b.end-b.begin, -1, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		// The pages stay those of the file, and out of the heap: others may have it mapped
		// and would read what the heap puts there.
		mu.Lock()
		stuck = append(stuck, first)
		mu.Unlock()
	}
}

// Find tells in which block p lies, and where in it. The block is good for as long as p is in use.
func Find(p []byte) (b *Block, offset int, ok bool) {
	list := blocks.Load()
	if list == nil || len(p) == 0 {
		return nil, 0, false
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
	i, exact := slices.BinarySearchFunc(*list, at, byBegin)
	if !exact {
		i--
	}
	if i < 0 {
		return nil, 0, false
	}
	b = (*list)[i]
	if at+uintptr(len(p)) > b.end {
		return nil, 0, false
	}
	return b, int(at - b.begin), true
}

// Discard gives the pages of p to the system, for this process and all that have them mapped. p
// then holds zeros, and takes pages as it is written to. It returns false, and does nothing, where
// p is not memory with a file behind it.
func Discard(p []byte) bool {
	b, offset, ok := Find(p)
	if !ok {
		return false
	}
	err := unix.Fallocate(b.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(offset), int64(len(p)))

	// The file is kept alive with p.
	runtime.KeepAlive(p)
	return err == nil
}

// Pinned says that a device copies to and from the pages of p by their physical addresses: if p
// lies in a block, no part of that is Alone from now on, so that its pages are never detached.
func Pinned(p []byte) {
	if b, _, ok := Find(p); ok {
		b.pinned.Store(true)
	}
}

// Alone reports whether n bytes at offset begin with a page, and whether nothing else lies in their
// last one: then the pages can be detached.
func (b *Block) Alone(offset, n int) bool {
	if b.pinned.Load() || offset&int(pageSize-1) != 0 {
		return false
	}
	if (offset+n)&int(pageSize-1) == 0 {
		return true
	}
	_, found := slices.BinarySearch(b.ends, offset+n)
	return found
}

// Detach gives p, which is in the block and Alone, pages of its own with the same content.
// Processes that have the block mapped keep the pages that p had: they neither see what is written
// to p from now on nor change it. Find does not know the block any more. No other goroutine may use
// p meanwhile.
func (b *Block) Detach(p []byte) error {
	mu.Lock()
	list := slices.DeleteFunc(slices.Clone(*blocks.Load()), func(o *Block) bool { return o == b })
	blocks.Store(&list)
	mu.Unlock()
	length := (len(p) + int(pageSize) - 1) &^ int(pageSize-1)
	pages, err := unix.Mmap(-1, 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil {
		first := unsafe.SliceData(p)

		// The copy has what is behind p in its last page, too.
		copy(pages, unsafe.Slice(first, length))
		if err = movePages(uintptr(unsafe.Pointer(first)), pages); err != nil {
			err = errors.Join(err, unix.Munmap(pages))
		}
	}
	if err != nil {
		return fmt.Errorf("shm: detach %d bytes from their peers: %w", len(p), err)
	}
	return nil
}

// File is the block's descriptor, to be sent to another process while the block is good. That
// process can write to the block.
func (b *Block) File() int { return b.fd }

// ReadOnly returns a descriptor of the block for a process that must not write to it: what it maps
// by it is read-only for good. The caller closes it.
func (b *Block) ReadOnly() (fd int, err error) {
	return unix.Open(fmt.Sprintf("/proc/self/fd/%d", b.fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// A Mapping is memory of another process.
type Mapping struct {
	bytes []byte
	file  file
	users int // guarded by mapped.mu
}

type file struct {
	dev, ino uint64
	writable bool
}

// mapped are the files mapped already: connections to one process share them.
var mapped struct {
	mu    sync.Mutex // guards the rest
	list  map[file]*Mapping
	bytes int64
}

// Limits of what all peers together can make a process map. Beyond them a peer's memory is copied.
// Addresses and mappings are finite (Linux has 65,530 mappings for a process), and a process that
// cannot get more for its own heap ends.
const (
	maxMappings = 16 << 10
	maxMapped   = 4 << 40
)

// Sealed returns the size of a file that a peer has sent, which the peer cannot change. Pages of
// another kind than ordinary ones are refused: where they are scarce, to touch one may end the
// process.
func Sealed(fd int) (size int64, err error) {
	const want = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return 0, fmt.Errorf("shm: the seals of a peer's memory: %w", err)
	}
	if seals&want != want {
		return 0, fmt.Errorf("shm: a peer's memory has seals %#x, want at least %#x", seals, want)
	}
	var system unix.Statfs_t
	var stat unix.Stat_t
	if err := errors.Join(unix.Fstatfs(fd, &system), unix.Fstat(fd, &stat)); err != nil {
		return 0, fmt.Errorf("shm: the size of a peer's memory: %w", err)
	}
	if system.Type != unix.TMPFS_MAGIC {
		return 0, fmt.Errorf("shm: a peer's memory is of file system %#x, want %#x (tmpfs)", system.Type, unix.TMPFS_MAGIC)
	}
	return stat.Size, nil
}

// Map maps the whole file fd, which another process sent and which stays the caller's to close, to
// be read and perhaps written. A file whose owner could make it shorter meanwhile is refused.
func Map(fd int, writable bool) (*Mapping, error) {
	size, err := Sealed(fd)
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, fmt.Errorf("shm: the number of a peer's memory: %w", err)
	}
	f, protection := file{uint64(stat.Dev), stat.Ino, writable}, unix.PROT_READ //nolint:unconvert // Dev has 32 bits on MIPS
	if writable {
		protection |= unix.PROT_WRITE
	}
	mapped.mu.Lock()
	defer mapped.mu.Unlock()
	if m := mapped.list[f]; m != nil {
		m.users++
		return m, nil
	}
	if len(mapped.list) >= maxMappings || size > maxMapped-mapped.bytes {
		return nil, fmt.Errorf("shm: a peer's memory of %d bytes, with %d bytes of peers in %d mappings already: want at most %d in %d", size, mapped.bytes, len(mapped.list), int64(maxMapped), maxMappings)
	}
	b, err := unix.Mmap(fd, 0, int(size), protection, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("shm: map %d bytes of a peer's memory: %w", size, err)
	}
	mapped.bytes += size
	m := &Mapping{bytes: b, file: f, users: 1}
	if mapped.list == nil {
		mapped.list = map[file]*Mapping{}
	}
	mapped.list[f] = m
	return m, nil
}

// Bytes is the memory. Its owner may change it at any time; it must not be touched after Close.
func (m *Mapping) Bytes() []byte { return m.bytes }

// Close ends one use of the mapping.
func (m *Mapping) Close() error {
	mapped.mu.Lock()
	defer mapped.mu.Unlock()
	if m.users--; m.users > 0 {
		return nil
	}
	delete(mapped.list, m.file)
	mapped.bytes -= int64(len(m.bytes))
	return unix.Munmap(m.bytes)
}
