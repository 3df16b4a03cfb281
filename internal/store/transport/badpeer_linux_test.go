package transport

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paragon-train/paragon/internal/compute/shm"
)

// An offerer is the dialling end of a connection through memory, which keeps what it sends.
type offerer struct {
	*unixConn
	rings        int // the memory
	bells, loans int // its ends of the sockets that it has sent
	sent         [2]int
}

// offered returns a connection that a peer has offered by hand, and the peer.
func offered(t *testing.T) (ours *memoryConn, peer *offerer) {
	t.Helper()
	x, y := socketPair(t)
	peer = &offerer{unixConn: x}
	var err error
	if peer.rings, err = unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		t.Skip(err)
	}
	if err := unix.Ftruncate(peer.rings, 2*ringHeader+2<<ringBits); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(peer.rings), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		t.Fatal(err)
	}
	for i, own := range []*int{&peer.bells, &peer.loans} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		*own, peer.sent[i] = pair[0], pair[1]
	}
	t.Cleanup(func() {
		x.Close()
		for _, fd := range []int{peer.rings, peer.bells, peer.loans, peer.sent[0], peer.sent[1]} {
			unix.Close(fd)
		}
	})
	if _, _, err := x.WriteMsgUnix([]byte{'P', 'R', 'G', 'U', offerMemory, ringBits, 0, 0}, unix.UnixRights(peer.rings, peer.sent[0], peer.sent[1]), nil); err != nil {
		t.Fatal(err)
	}
	conn, err := y.answerOffer()
	if err != nil {
		t.Fatal(err)
	}
	return conn.(*memoryConn), peer
}

// A peer has the sockets that it has sent as we do, and can make calls on them wait in the system.
// We have our deadlines all the same, and can close the connection.
func TestAPeerThatMakesItsSocketsBlockHoldsNothingUp(t *testing.T) {
	ours, peer := offered(t)
	for _, fd := range peer.sent {
		if err := unix.SetNonblock(fd, false); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 4)
	within := func(what string, want error) {
		t.Helper()
		select {
		case err := <-done:
			if !errors.Is(err, want) {
				t.Errorf("%s: got error %v, want %v", what, err, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s has not ended after 10 s", what)
		}
	}
	go func() {
		ours.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		_, err := ours.Write(make([]byte, 2<<ringBits)) // waits for room
		done <- err
	}()
	within("a write to a peer that does not read", os.ErrDeadlineExceeded)
	for range 3000 { // rings until the socket is full
		ours.in.via.Write(ours.in.tell)
	}
	memory, err := unix.Mmap(peer.rings, 0, 2*ringHeader+2<<ringBits, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	theirs := newRing(memory, 0, ringBits)
	theirs.putHeader(0, 0, 1, 0) // a block whose descriptor never comes
	*theirs.written = recordHeader
	unix.Write(peer.bells, doorbellByte)
	read := make(chan error, 1)
	go func() {
		_, err := ours.Read(make([]byte, 1))
		read <- err
	}()
	peer.Write(doorbellByte)
	time.Sleep(20 * time.Millisecond) // the reader waits for the descriptor
	go func() { done <- ours.Close() }()
	within("closing", nil)
	if err := <-read; err == nil {
		t.Error("a read of a block that did not come: no error")
	}
}

// A peer's files of absurd sizes, and too many of them, do not take the addresses that this process
// needs for its own memory: they are not mapped.
func TestPeersCannotTakeAllAddresses(t *testing.T) {
	file := func(size int64, flags int) int {
		fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|flags)
		if err != nil {
			t.Skip(err)
		}
		if err := unix.Ftruncate(fd, size); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
			t.Fatal(err)
		}
		return fd
	}
	fd := file(3<<40, 0)
	defer unix.Close(fd)
	m, err := shm.Map(fd, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{2 << 40, 100 << 40, 1 << 62} {
		fd := file(size, 0)
		defer unix.Close(fd)
		if m, err := shm.Map(fd, false); err == nil || !strings.Contains(err.Error(), "want at most") {
			t.Fatalf("%d bytes more: got %v, %v, want them refused", size, m, err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	var mappings []*shm.Mapping
	defer func() {
		for _, m := range mappings {
			m.Close()
		}
	}()
	for err = nil; err == nil && len(mappings) < 1<<16; {
		fd := file(4096, 0)
		var m *shm.Mapping
		if m, err = shm.Map(fd, true); err == nil {
			mappings = append(mappings, m)
		}
		unix.Close(fd)
	}
	if err == nil || !strings.Contains(err.Error(), "want at most") {
		t.Errorf("after %d files: got %v, want no more", len(mappings), err)
	}
	// Pages of another size may be missing when they are touched.
	huge, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_HUGETLB)
	if err != nil {
		t.Skip("no huge pages: ", err)
	}
	defer unix.Close(huge)
	unix.FcntlInt(uintptr(huge), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
	if _, err := shm.Sealed(huge); err == nil || !strings.Contains(err.Error(), "file system") {
		t.Errorf("huge pages: got %v, want them refused", err)
	}
}

// The memory that the accepting end lends is for reading: a peer that wants to write to it cannot
// map it.
func TestPeersCannotWriteToTheMemoryOfTheAcceptingEnd(t *testing.T) {
	for _, lender := range []int{0, 1} {
		a, b := pair(t)
		from, to := a, b
		if lender == 1 {
			from, to = b, a
		}
		to.blocks.writable = true
		memory, got := sharable(100_000, 1), make([]byte, 100_000)
		done := make(chan error, 1)
		go func() { _, err := from.Write(memory); done <- err }()
		if _, err := io.ReadFull(to, got); err != nil || string(got) != string(memory) {
			t.Fatalf("got error %v, or other bytes than were sent", err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if mapped := to.blocks.mappings[0] != nil; mapped != (lender == 0) {
			t.Errorf("memory of end %d could be mapped for writing: %v", lender, mapped)
		}
	}
}
