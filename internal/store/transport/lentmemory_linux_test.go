package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/shm"
	"golang.org/x/sys/unix"
)

// sharable returns n bytes that can be lent, in a block of their own, filled by a seed.
func sharable(n int, seed uint64) []byte {
	words := shm.Words(max(n, shm.MinBytes)/8 + 1)
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))[:n]
	random := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// Bytes come out as they went in, whether pieces are lent or copied, whatever their lengths, in
// both directions at once.
func TestLentBytesKeepTheirPlace(t *testing.T) {
	a, b := pair(t)
	var wg sync.WaitGroup
	const total = 10 << 20
	for i, way := range []struct{ from, to *memoryConn }{{a, b}, {b, a}} {
		sent, lent := sharable(total, uint64(i)), 0
		plain := bytes.Clone(sent)
		wg.Go(func() {
			random := rand.New(rand.NewPCG(2, uint64(i)))
			for at := 0; at < total; {
				var pieces net.Buffers
				for range 1 + random.IntN(5) {
					n := min(1+random.IntN(1<<random.IntN(23)), total-at)
					from := sent
					if random.IntN(2) == 0 {
						from = plain
					} else if n >= lendBytes {
						lent++
					}
					if n > 0 {
						pieces = append(pieces, from[at:at+n])
					}
					at += n
				}
				if err := way.from.writeVector(&pieces); err != nil || len(pieces) > 0 {
					t.Errorf("write: got error %v and %d pieces left", err, len(pieces))
					return
				}
			}
			if lent == 0 {
				t.Error("nothing was lent")
			}
		})
		wg.Go(func() {
			random := rand.New(rand.NewPCG(3, uint64(i)))
			got := make([]byte, 0, total)
			for len(got) < total {
				n, err := way.to.Read(got[len(got):min(len(got)+1+random.IntN(1<<random.IntN(22)), total)])
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				got = got[:len(got)+n]
			}
			if !bytes.Equal(got, plain) {
				t.Error("got other bytes than were sent")
			}
		})
	}
	wg.Wait()
}

// A write of lent memory that was given up is never read whole, for the memory may have changed.
func TestLentMemoryThatWasWithdrawnIsNotHandedOut(t *testing.T) {
	for _, readFirst := range []bool{false, true} {
		a, b := pair(t)
		memory := sharable(200_000, 1)
		want := bytes.Clone(memory)
		written := make(chan error)
		go func() { _, err := a.Write(memory); written <- err }()
		got := make([]byte, 0, len(memory))
		if readFirst { // all but the last byte
			for len(got) < len(memory)-1 {
				n, err := b.Read(got[len(got) : len(memory)-1])
				if err != nil {
					t.Fatal(err)
				}
				got = got[:len(got)+n]
			}
			if !bytes.Equal(got, want[:len(got)]) {
				t.Error("got other bytes than were sent")
			}
		} else {
			// Fetch the block, without which nothing is lent, and see that something
			// is.
			if err := b.nextRecord(); err != nil {
				t.Fatal(err)
			}
			if _, err := b.await(&b.in, (*ring).filled, b.in.readerWaits, b.dataBell); err != nil {
				t.Fatal(err)
			}
		}
		a.SetWriteDeadline(time.Now())
		if err := <-written; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("write that nobody reads: got error %v, want %v", err, os.ErrDeadlineExceeded)
		}
		clear(memory)
		rest, err := io.ReadAll(io.LimitReader(b, int64(len(memory)-len(got))))
		if err == nil || len(got)+len(rest) >= len(memory) {
			t.Errorf("read after the write was given up: got %d bytes of %d and error %v, want fewer and an error", len(got)+len(rest), len(memory), err)
		}
	}
}

// A vector that ran into its deadline goes on where it was.
func TestVectorGoesOnAfterADeadline(t *testing.T) {
	a, b := pair(t)
	memory, small := sharable(300_000, 1), bytes.Repeat([]byte("small"), 1<<18)
	pieces := net.Buffers{small, memory, memory[100_000:], small}
	want := bytes.Join(pieces, nil)
	var got bytes.Buffer
	done := make(chan error, 1)
	start := make(chan struct{})
	go func() {
		<-start
		_, err := io.CopyN(&got, b, int64(len(want)))
		done <- err
	}()
	turns := 0
	for {
		a.SetWriteDeadline(time.Now().Add(time.Millisecond))
		err := a.writeVector(&pieces)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		if turns++; turns == 3 {
			close(start)
		}
	}
	if err := <-done; err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("got %d bytes and error %v, want the %d that were sent", got.Len(), err, len(want))
	}
	if turns < 3 {
		t.Errorf("got %d deadlines, want 3 at least", turns)
	}
}

// Where the peer cannot map the memory its bytes are copied.
func TestMemoryThatCannotBeMappedIsCopied(t *testing.T) {
	a, b := pair(t)
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC) // without seals
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	memory := sharable(100_000, 1)
	block, _, ok := shm.Find(memory)
	if !ok {
		t.Skip("no memory to share")
	}
	a.loan.sent = block.ID // as if it had been
	if _, _, err := a.loan.over.WriteMsgUnix(doorbellByte, unix.UnixRights(fd), nil); err != nil {
		t.Fatal(err)
	}
	a.out.putHeader(a.out.position, 0, 1, 0)
	a.out.position += recordHeader
	for range 2 {
		go a.Write(memory)
		got := make([]byte, len(memory))
		if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, memory) {
			t.Fatalf("got error %v, or other bytes than were sent", err)
		}
	}
	if !a.loan.never {
		t.Error("memory is still lent to a peer that cannot map it")
	}
	runtime.KeepAlive(memory)
}

// A closed connection's memory is gone; what is written or read then is an error.
func TestMemoryIsNotTouchedAfterClose(t *testing.T) {
	a, b := pair(t)
	go b.Write(make([]byte, 100))
	if _, err := a.Read(make([]byte, 1)); err != nil { // the rest of the record is left
		t.Fatal(err)
	}
	a.Close()
	for what, p := range map[string][]byte{"copied": make([]byte, 100), "lent": sharable(100_000, 1)} {
		if n, err := a.Write(p); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("write, %s: got %d and error %v, want 0 and %v", what, n, err, net.ErrClosed)
		}
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read: got error %v, want %v", err, net.ErrClosed)
	}
	a.withdraw()
}

// Memory that its owner gave up takes no pages any more, though the peer has it mapped.
func TestMemoryThatWasGivenUpIsFree(t *testing.T) {
	a, b := pair(t)
	const n, blocks = 1 << 20, 32
	done := make(chan error)
	go func() { _, err := io.CopyN(io.Discard, b, n*blocks); done <- err }()
	for range blocks {
		if _, err := a.Write(sharable(n, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	resident := func() (pages int) {
		for _, m := range b.blocks.mappings {
			in := make([]byte, (len(m.Bytes())+4095)/4096)
			at := func(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
			if _, _, errno := unix.Syscall(unix.SYS_MINCORE, at(m.Bytes()), uintptr(len(m.Bytes())), at(in)); errno != 0 {
				t.Fatal(errno)
			}
			for _, v := range in {
				pages += int(v & 1)
			}
		}
		return pages
	}
	for end := time.Now().Add(10 * time.Second); resident() > 4*n/4096; runtime.Gosched() {
		if runtime.GC(); time.Now().After(end) {
			t.Fatalf("after the owner dropped %d blocks of %d bytes: the peer keeps %d pages of them, want at most those of 4", blocks, n, resident())
		}
	}
}

// A peer that writes nonsense where records stand is an error, and nothing is read out of bounds.
func TestMemoryRefusesRecordsThatCannotBe(t *testing.T) {
	for _, tt := range []struct {
		what   string
		size   uint32
		block  uint32
		offset uint64
		want   string
	}{
		{"more bytes than there are", 100, 0, 0, "is not among"},
		{"no bytes", 0, 0, 0, "is not among"},
		{"bytes without end", 1 << 31, 1, 0, "is not among"},
		{"a block that has not come", 100_000, 7, 0, "before it has sent the block"},
		{"bytes behind a block", 100_000, 1, 1 << 40, "of a block of"},
		{"bytes over the end of a block", 1 << 30, 1, 0, "of a block of"},
		{"more than was lent", 100_000, 1, 0, "lends more bytes than it announced"},
		{"a block out of turn", 0, 9, 0, "sends its block 9, want 2"},
	} {
		a, b := pair(t)
		memory := sharable(100_000, 1)
		go a.Write(memory)
		got := make([]byte, len(memory))
		if _, err := io.ReadFull(b, got); err != nil {
			t.Fatal(err)
		}
		a.writing.Lock()
		a.out.putHeader(a.out.position, int(tt.size), tt.block, tt.offset)
		a.out.position += recordHeader
		a.out.advanceWritten()
		a.writing.Unlock()
		if _, err := io.ReadFull(b, got); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q", tt.what, err, tt.want)
		}
	}
	a, b := pair(t)
	a.writing.Lock()
	a.out.put(a.out.position, binary.LittleEndian.AppendUint32(nil, 5))
	a.out.position += 4
	a.out.advanceWritten()
	a.writing.Unlock()
	if _, err := b.Read(make([]byte, 10)); err == nil || !strings.Contains(err.Error(), "want a record's header") {
		t.Errorf("half a header: got error %v", err)
	}
}
