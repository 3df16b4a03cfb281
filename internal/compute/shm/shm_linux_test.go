package shm

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// childEnv makes the test's binary a process that reads the memory behind descriptor 3 and writes
// its first byte to 4.
const childEnv = "PARAGON_TEST_SHM_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	mapping, err := Map(3, false)
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Stdout.Write(mapping.Bytes()[:4])
	os.Exit(0)
}

func TestAnotherProcessSeesTheMemory(t *testing.T) {
	x := Float32s(MinBytes)
	if i := slices.IndexFunc(x, func(v float32) bool { return v != 0 }); i >= 0 || len(x) != MinBytes {
		t.Fatalf("got %d numbers of which %d is not zero, want %d zeros", len(x), i, MinBytes)
	}
	block, offset, ok := Find(bytesOf(x))
	if !ok || offset != 0 {
		t.Fatalf("Find: got offset %d, %v, want 0, true", offset, ok)
	}
	copy(bytesOf(x), "hear")
	fd, err := unix.Dup(block.File())
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	defer f.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.ExtraFiles = []*os.File{f}
	cmd.Stderr = os.Stderr
	if out, err := cmd.Output(); err != nil || string(out) != "hear" {
		t.Fatalf("the child: got %q, %v, want %q", out, err, "hear")
	}
	runtime.KeepAlive(x)
}

func TestFindKnowsTheBlocksAlone(t *testing.T) {
	x, small, other := Float32s(2*MinBytes), Float32s(10), make([]byte, MinBytes)
	b := bytesOf(x)
	for _, tt := range []struct {
		name   string
		p      []byte
		offset int
		ok     bool
	}{
		{"all", b, 0, true},
		{"end", b[len(b)-3:], len(b) - 3, true},
		{"middle", b[5000:6000], 5000, true},
		{"nothing", b[:0], 0, false},
		{"a small one", bytesOf(small), 0, false},
		{"ordinary memory", other, 0, false},
	} {
		if _, offset, ok := Find(tt.p); offset != tt.offset || ok != tt.ok {
			t.Errorf("%s: got %d, %v, want %d, %v", tt.name, offset, ok, tt.offset, tt.ok)
		}
	}
}

// Memory that nobody points to is an ordinary part of the heap again: what the heap puts there is
// not seen by those who have the file.
func TestTheCollectorGetsTheMemoryBack(t *testing.T) {
	known := func(id uint64) bool {
		return slices.ContainsFunc(*spans.Load(), func(s span) bool { return s.block.ID == id })
	}
	keep := Float32s(MinBytes)
	var mapping *Mapping
	var id uint64
	func() {
		x := Float32s(MinBytes)
		x[7] = 7
		part := x[5:9] // holds all of it
		x = nil
		runtime.GC()
		block, _, ok := Find(bytesOf(part))
		if !ok || part[2] != 7 {
			t.Fatalf("a part of the memory after a collection: got block %v, value %v, want true, 7", ok, part[2])
		}
		id = block.ID
		var err error
		if mapping, err = Map(block.File(), false); err != nil {
			t.Fatal(err)
		}
	}()
	defer mapping.Close()
	for end := time.Now().Add(10 * time.Second); known(id); {
		if time.Now().After(end) {
			t.Fatal("the block is still there after 10 s of collections")
		}
		runtime.GC()
		runtime.Gosched()
	}
	var fill [][]float32
	for range 64 {
		x := make([]float32, MinBytes+1024)
		for i := range x {
			x[i] = 1
		}
		fill = append(fill, x)
	}
	for i, b := range mapping.Bytes() {
		if at := i / 4; b != 0 && at != 7 {
			t.Fatalf("number %d of the file changed after its memory went back to the heap", at)
		}
	}
	runtime.KeepAlive(fill)
	runtime.KeepAlive(keep)
}

func TestMapRefusesMemoryThatCouldShrink(t *testing.T) {
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := Map(fd, false); err == nil {
		t.Error("memory without seals: got no error")
	}
	if _, err := Map(int(os.Stdin.Fd()), false); err == nil {
		t.Error("a file that is no memory: got no error")
	}
}

// Connections to one process share its mappings.
func TestMapMapsAFileOnce(t *testing.T) {
	x := Float32s(MinBytes)
	block, _, _ := Find(bytesOf(x))
	a, err := Map(block.File(), false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Map(block.File(), false)
	if err != nil || a != b {
		t.Fatalf("mapped twice: got %p and %p, %v, want the same", a, b, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	x[0] = 3
	if got := b.Bytes(); got[3] == 0 {
		t.Error("the other user's mapping went with the first's")
	}
	if err := b.Close(); err != nil || len(mapped.list) != 0 {
		t.Errorf("after the last Close: got %v and %d mappings, want nil and 0", err, len(mapped.list))
	}
	runtime.KeepAlive(x)
}

// Pages that were discarded are the system's, in this process and in those that have them mapped,
// and the memory is good as before.
func TestDiscardedMemoryHasNoPages(t *testing.T) {
	x := Float32s(64 * MinBytes)
	for i := range x {
		x[i] = 1
	}
	block, _, _ := Find(bytesOf(x))
	m, err := Map(block.File(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	blocks := func() int64 {
		var stat unix.Stat_t
		if err := unix.Fstat(block.File(), &stat); err != nil {
			t.Fatal(err)
		}
		return stat.Blocks * 512
	}
	if have := blocks(); have < int64(4*len(x)) {
		t.Fatalf("the file has %d bytes of pages, want at least %d", have, 4*len(x))
	}
	from, to := MinBytes+1, 33*MinBytes+3 // not at pages' ends
	if !Discard(bytesOf(x[from:to])) {
		t.Fatal("the memory was not discarded")
	}
	if have, most := blocks(), int64(4*len(x)-4*(to-from)+3*os.Getpagesize()); have > most {
		t.Errorf("the file still has %d bytes of pages, want at most %d", have, most)
	}
	for i, v := range x {
		if want := float32(1); (i < from || i >= to) != (v == want) {
			t.Fatalf("number %d is %v", i, v)
		}
	}
	x[from] = 2
	if got := m.Bytes()[4*from+3]; got != 0x40 {
		t.Errorf("the mapping has %#x where 2 was written", got)
	}
	if Discard(make([]byte, MinBytes)) {
		t.Error("ordinary memory: got true")
	}
	runtime.KeepAlive(x)
}

// Slices lie one behind the other, and the large ones have their pages to themselves.
func TestSlicesHaveTheirPagesToThemselves(t *testing.T) {
	lengths := []int{10, MinBytes/4 + 3, 0, 5, MinBytes / 4, MinBytes / 2, 7}
	each, all := Slices(lengths...)
	block, _, ok := Find(bytesOf(all))
	if !ok {
		t.Skip("no memory to share")
	}
	last := 0
	for i, x := range each {
		if len(x) != lengths[i] || cap(x) != lengths[i] {
			t.Fatalf("slice %d: got length %d and capacity %d, want %d", i, len(x), cap(x), lengths[i])
		}
		if len(x) == 0 {
			continue
		}
		_, offset, ok := Find(bytesOf(x))
		if !ok || offset < last || offset%64 != 0 {
			t.Errorf("slice %d: got offset %d, %v, want a multiple of 64, at least %d", i, offset, ok, last)
		}
		last = offset + 4*len(x)
		large := 4*len(x) >= MinBytes
		if got := block.Alone(offset, 4*len(x)); got != large {
			t.Errorf("slice %d of %d numbers: Alone is %v, want %v", i, len(x), got, large)
		}
		if large && (block.Alone(offset, 4*len(x)-4) || block.Alone(offset+64, 4*len(x)-64) || !block.Alone(offset+int(pageSize), int(pageSize))) {
			t.Errorf("slice %d: parts of it are alone where their pages hold the rest, or are not where they hold nothing else", i)
		}
	}
	Pinned(bytesOf(each[4])) // a GPU copies from there
	if _, offset, _ := Find(bytesOf(each[1])); block.Alone(offset, 4*len(each[1])) {
		t.Error("memory of a block that a device uses is alone")
	}
	Pinned(make([]byte, 10)) // ordinary memory
	if each, all := Slices(1, 2); len(each[1]) != 2 || len(all) != 18 {
		t.Errorf("small slices: got %d and %d numbers, want 2 and 18", len(each[1]), len(all))
	}
}

// What was detached keeps its content, and is no longer what others have mapped; the slices beside
// it still are.
func TestDetachedMemoryIsItsOwnersAlone(t *testing.T) {
	each, all := Slices(MinBytes, MinBytes+1, MinBytes)
	for i := range all {
		all[i] = float32(i)
	}
	want := slices.Clone(all)
	block, offset, ok := Find(bytesOf(each[1]))
	if !ok {
		t.Skip("no memory to share")
	}
	m, err := Map(block.File(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := block.Detach(bytesOf(each[1])); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(all, want) {
		t.Fatal("the memory's content changed")
	}
	for i, want := range []bool{true, false, true} {
		if _, _, ok := Find(bytesOf(each[i])); ok != want {
			t.Errorf("slice %d: Find knows it: %v, want %v", i, ok, want)
		}
	}
	if _, _, ok := Find(bytesOf(all)); ok {
		t.Error("Find knows memory of which a part was detached")
	}
	m.Bytes()[offset] ^= 0xff
	if each[1][0] != want[len(each[0])+(offset/4-len(each[0]))] {
		t.Error("a peer has changed memory that was detached")
	}
	each[1][1] = -1
	if m.Bytes()[offset+7] == 0xbf {
		t.Error("a peer sees what was written to memory that was detached")
	}
	m.Bytes()[3] = 0x40
	if each[0][0] == 0 {
		t.Error("memory beside it was detached, too")
	}
	// The collector gets this memory back, too, and its peers' pages go.
	for end := time.Now().Add(10 * time.Second); m.Bytes()[3] != 0; runtime.GC() {
		if time.Now().After(end) {
			t.Fatal("memory of which a part was detached is not given back")
		}
	}
}

// Renew gives a slice of which a part was detached a file of its own, which peers can map, with the
// content that the owner sees; a peer of the old file is no peer of it. Both files go with the
// memory.
func TestRenewedMemoryIsSharedAnew(t *testing.T) {
	each, all := Slices(MinBytes, MinBytes+1, MinBytes)
	for i := range all {
		all[i] = float32(i)
	}
	want := slices.Clone(all)
	block, _, ok := Find(bytesOf(each[1]))
	if !ok {
		t.Skip("no memory to share")
	}
	before := count.Load()
	old, err := Map(block.File(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	page := int(pageSize) / 4
	if err := block.Detach(bytesOf(each[1][page : 2*page])); err != nil {
		t.Fatal(err)
	}
	for turn := range 2 {
		each[1][page] = float32(turn)
		part, err := block.Renew(bytesOf(each[1]))
		if err != nil {
			t.Fatal(err)
		}
		if b, offset, ok := Find(bytesOf(each[1])); !ok || b != part || offset != 0 || !part.Alone(0, 4*len(each[1])) {
			t.Fatalf("turn %d: Find gives block %v, offset %d, %v; want the new block, which is alone", turn, b, offset, ok)
		}
		m, err := Map(part.File(), true)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		want[len(each[0])+page] = float32(turn)
		if got := unsafe.Slice((*float32)(unsafe.Pointer(&m.Bytes()[0])), len(each[1])); !slices.Equal(got, want[len(each[0]):][:len(got)]) || !slices.Equal(all, want) {
			t.Fatalf("turn %d: the content changed", turn)
		}
		m.Bytes()[3] = 0x40
		if each[1][0] == want[len(each[0])] {
			t.Errorf("turn %d: what a peer writes to the new file does not come", turn)
		}
		each[1][0] = want[len(each[0])]
	}
	if len(block.parts) != 1 {
		t.Errorf("the block has %d parts, want the newest one alone", len(block.parts))
	}
	if _, err := block.Renew(bytesOf(each[1][1:])); err == nil {
		t.Error("got a part of a page renewed")
	}
	if b, _, ok := Find(bytesOf(each[2])); !ok || b != block {
		t.Error("the slice beside it is no longer known")
	}
	for end := time.Now().Add(10 * time.Second); count.Load() >= before; runtime.GC() {
		if time.Now().After(end) {
			t.Fatalf("%d blocks are left, want fewer than %d", count.Load(), before)
		}
	}
}

// A file that its owner could make shorter is refused: a page that is missing when it is touched
// ends the process.
func TestFilesThatCouldShrinkAreRefused(t *testing.T) {
	for _, seals := range []int{0, unix.F_SEAL_SHRINK, unix.F_SEAL_GROW, unix.F_SEAL_SEAL} {
		fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Skip(err)
		}
		defer unix.Close(fd)
		if err := unix.Ftruncate(fd, 4096); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
		if m, err := Map(fd, false); err == nil || !strings.Contains(err.Error(), "want at least") {
			t.Fatalf("seals %#x: got %v, %v, want the file refused", seals, m, err)
		}
	}
}
