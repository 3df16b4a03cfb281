package shm

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// childEnv makes the test's binary a process that reads the memory behind descriptor 3 and writes its first byte to 4.
const childEnv = "PARAGON_TEST_SHM_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	mapping, err := Map(3)
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

// Memory that nobody points to is an ordinary part of the heap again: what the heap puts there is not seen by those who have the file.
func TestTheCollectorGetsTheMemoryBack(t *testing.T) {
	known := func(id uint64) bool {
		return slices.ContainsFunc(*blocks.Load(), func(b *Block) bool { return b.ID == id })
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
		if mapping, err = Map(block.File()); err != nil {
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
	if _, err := Map(fd); err == nil {
		t.Error("memory without seals: got no error")
	}
	if _, err := Map(int(os.Stdin.Fd())); err == nil {
		t.Error("a file that is no memory: got no error")
	}
}

// Connections to one process share its mappings.
func TestMapMapsAFileOnce(t *testing.T) {
	x := Float32s(MinBytes)
	block, _, _ := Find(bytesOf(x))
	a, err := Map(block.File())
	if err != nil {
		t.Fatal(err)
	}
	b, err := Map(block.File())
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

// Pages that were discarded are the system's, in this process and in those that have them mapped, and the memory is good as before.
func TestDiscardedMemoryHasNoPages(t *testing.T) {
	x := Float32s(64 * MinBytes)
	for i := range x {
		x[i] = 1
	}
	block, _, _ := Find(bytesOf(x))
	m, err := Map(block.File())
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
