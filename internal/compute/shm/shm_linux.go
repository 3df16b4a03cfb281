package shm

import (
	"cmp"
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

	// parts are the blocks that Renew has put in place of pages of this one. mu guards them.
	parts []*Block
}

// A span is memory whose pages are those of a block's file.
type span struct {
	begin, end uintptr
	block      *Block
}

// spans are all memory with a file behind it, by address. Readers take the slice as it is; it is
// replaced, never changed, under mu.
var (
	spans  atomic.Pointer[[]span]
	mu     sync.Mutex
	lastID uint64

	// count is the number of blocks.
	count atomic.Int32

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
	if none.Load() || count.Load() >= maxBlocks {
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
	number(b)
	replaceSpans(b.begin, b.end, b)
}

// number gives a new block its ID. The caller holds mu.
func number(b *Block) {
	lastID++
	b.ID = lastID
	count.Add(1)
}

// replaceSpans says that the memory from begin to end has pages of b's file from now on; nil: of no
// file. The caller holds mu.
func replaceSpans(begin, end uintptr, b *Block) {
	var list []span
	if p := spans.Load(); p != nil {
		list = make([]span, 0, len(*p)+2)
		for _, s := range *p {
			if s.begin < begin {
				list = append(list, span{s.begin, min(s.end, begin), s.block})
			}
			if s.end > end {
				list = append(list, span{max(s.begin, end), s.end, s.block})
			}
		}
	}
	if b != nil {
		at, _ := slices.BinarySearchFunc(list, begin, byBegin)
		list = slices.Insert(list, at, span{begin, end, b})
	}
	spans.Store(&list)
}

func byBegin(s span, address uintptr) int { return cmp.Compare(s.begin, address) }

// leave replaces the file's pages by ordinary ones. No pointer to the memory is left, and the heap
// does not have it yet.
func (b *Block) leave(first *uint64) {
	mu.Lock()
	replaceSpans(b.begin, b.end, nil)
	files := append([]*Block{b}, b.parts...)
	count.Add(int32(-len(files)))
	mu.Unlock()
	for _, f := range files {
		// Peers that still have the file mapped would keep its pages.
		unix.Fallocate(f.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, int64(f.end-f.begin))
		unix.Close(f.fd)
	}
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
	list := spans.Load()
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
	s := (*list)[i]
	if at+uintptr(len(p)) > s.end {
		return nil, 0, false
	}
	return s.block, int(at - s.block.begin), true
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
// to p from now on nor change it. Find does not know p any more. No other goroutine may use p
// meanwhile.
func (b *Block) Detach(p []byte) error {
	begin, length := pagesOf(p)
	mu.Lock()
	replaceSpans(begin, begin+length, nil)
	mu.Unlock()
	pages, err := unix.Mmap(-1, 0, int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil {
		err = replaceBy(p, pages)
	}
	if err != nil {
		return fmt.Errorf("shm: detach %d bytes from their peers: %w", len(p), err)
	}
	return nil
}

// Renew puts the pages of a new file, with the same content, in place of those of p, which is in
// block b, wholly or before a part of it was detached, and has its pages to itself. The new file is a
// block that Find knows, and lives until p is renewed again, at most as long as b. No other goroutine
// may use p meanwhile.
func (b *Block) Renew(p []byte) (*Block, error) {
	begin, length := pagesOf(p)
	if begin < b.begin || begin+length > b.end || begin&(pageSize-1) != 0 {
		return nil, fmt.Errorf("shm: renew %d bytes: they are no whole pages of the block", len(p))
	}
	if count.Load() >= maxBlocks {
		return nil, fmt.Errorf("shm: renew %d bytes: there are %d blocks, which is the most", len(p), maxBlocks)
	}
	fd, err := newFile(int64(length))
	if err != nil {
		return nil, fmt.Errorf("shm: renew %d bytes: %w", len(p), err)
	}
	pages, err := unix.Mmap(fd, 0, int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		err = replaceBy(p, pages)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("shm: renew %d bytes: %w", len(p), err)
	}
	part := &Block{begin: begin, end: begin + length, fd: fd, ends: []int{len(p)}}
	part.pinned.Store(b.pinned.Load())
	mu.Lock()
	defer mu.Unlock()
	number(part)
	b.parts = append(slices.DeleteFunc(b.parts, part.closes), part)
	replaceSpans(part.begin, part.end, part)
	return part, nil
}

// closes closes the file of an older part of the same block whose pages this one replaces, and
// reports whether it is one. Peers that have that file mapped keep its pages. The caller holds mu.
func (b *Block) closes(older *Block) bool {
	if older.begin < b.begin || older.end > b.end {
		return false
	}
	unix.Close(older.fd)
	count.Add(-1)
	return true
}

// pagesOf returns the pages of p, which begins with one.
func pagesOf(p []byte) (begin, length uintptr) {
	return uintptr(unsafe.Pointer(unsafe.SliceData(p))), (uintptr(len(p)) + pageSize - 1) &^ (pageSize - 1)
}

// replaceBy moves pages to the place of p, with p's content and what is behind p in its last page.
func replaceBy(p, pages []byte) error {
	first := unsafe.SliceData(p)
	copy(pages, unsafe.Slice(first, len(pages)))
	if err := movePages(uintptr(unsafe.Pointer(first)), pages); err != nil {
		return errors.Join(err, unix.Munmap(pages))
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
