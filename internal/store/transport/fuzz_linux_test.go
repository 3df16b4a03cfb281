package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// socketPair is two ends of a unix socket, as after the proof of the secret.
func socketPair(tb testing.TB) (dialled, accepted *unixConn) {
	tb.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		tb.Fatal(err)
	}
	ends := make([]*unixConn, 2)
	for i, fd := range fds {
		nc, err := unixConnOf(fd, "test")
		if err != nil {
			tb.Fatal(err)
		}
		ends[i] = &unixConn{UnixConn: nc, peer: hostAddr("test"), memory: true}
	}
	return ends[0], ends[1]
}

// FuzzRing: a peer that shares memory writes what it wants into it, records, positions and the
// count of what is lent. Reads and writes of ours end with data or an error, and touch nothing
// beyond.
func FuzzRing(f *testing.F) {
	record := func(size, block uint32, offset uint64, data string) []byte {
		b := binary.LittleEndian.AppendUint32(nil, size)
		b = binary.LittleEndian.AppendUint32(b, block)
		return append(binary.LittleEndian.AppendUint64(b, offset), data...)
	}
	f.Add(record(5, 0, 0, "hello"), uint64(0), uint64(0), uint32(0))
	f.Add(record(70_000, 1, 8, ""), uint64(0), uint64(0), uint32(1))
	f.Add(append(record(70_000, 1, 1<<40, ""), record(0, 2, 0, "")...), uint64(0), uint64(0), uint32(1))
	f.Add(record(0, 2, 0, ""), uint64(0), uint64(0), uint32(0))
	f.Add([]byte{}, uint64(1)<<63, ^uint64(0), claimWithdrawn)
	memory := sharable(100_000, 1)
	f.Fuzz(func(t *testing.T, raw []byte, written, read uint64, claim uint32) {
		if len(raw) > 1<<16 {
			return
		}
		x, y := socketPair(t)
		conn, err := x.offer()
		if err != nil {
			t.Fatal(err)
		}
		evil, ok := conn.(*memoryConn)
		if !ok {
			t.Skip("no memory to share")
		}
		other, err := y.answerOffer()
		if err != nil {
			t.Fatal(err)
		}
		ours := other.(*memoryConn)
		defer ours.Close()
		if claim%2 == 1 { // block 1 is lent in order
			done := make(chan struct{})
			go func() { defer close(done); evil.Write(memory) }()
			if _, err := io.ReadFull(ours, make([]byte, len(memory))); err != nil {
				t.Fatal(err)
			}
			<-done
		}
		evil.out.put(evil.out.position, raw)
		evil.out.position += uint64(len(raw))
		atomic.StoreUint64(evil.out.written, evil.out.position+written)
		atomic.StoreUint64(evil.in.read, read)
		atomic.StoreUint32(evil.out.claim, claim)
		atomic.StoreUint32(evil.in.claim, claim)
		evil.Close()

		ours.SetDeadline(time.Now().Add(20 * time.Second))
		buf := bytes.Repeat([]byte{0xa5}, 3*4096)
		for {
			n, err := ours.Read(buf[4096:8192:8192])
			if n > 4096 {
				t.Fatalf("read %d bytes into 4096", n)
			}
			if err != nil {
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("a read from a peer that is gone has not ended")
				}
				break
			}
		}
		if _, err := ours.Write(make([]byte, 2<<ringBits)); err == nil {
			t.Error("a write of more than a ring holds, to a peer that is gone: no error")
		}
		if want := bytes.Repeat([]byte{0xa5}, 4096); !bytes.Equal(buf[:4096], want) || !bytes.Equal(buf[8192:], want) {
			t.Error("memory beside the reader's was written")
		}
	})
}

// FuzzOffer: whatever comes in place of an offer, with whatever descriptors, is a connection or an
// error, and leaves nothing open.
func FuzzOffer(f *testing.F) {
	f.Add([]byte("PRGU\x01\x00\x00\x00"), byte(0))
	f.Add([]byte("PRGU\x02\x14\x00\x00"), byte(3))
	f.Add([]byte("PRGU\x02\x0c\x00\x00"), byte(3))
	f.Add([]byte("PRGU"), byte(1))
	f.Fuzz(func(t *testing.T, message []byte, count byte) {
		if len(message) == 0 || len(message) > 100 {
			return
		}
		before := openDescriptors(t)
		x, y := socketPair(t)
		var fds []int
		for i := range int(count % 6) {
			if i == 0 {
				fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
				if err != nil {
					t.Skip(err)
				}
				unix.Ftruncate(fd, 2*ringHeader+2<<ringBits)
				unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
				fds = append(fds, fd)
				continue
			}
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Skip(err)
			}
			fds = append(fds, pair[0])
			defer unix.Close(pair[1])
		}
		var rights []byte
		if len(fds) > 0 {
			rights = unix.UnixRights(fds...)
		}
		if _, _, err := x.WriteMsgUnix(message, rights, nil); err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			unix.Close(fd)
		}
		y.SetDeadline(time.Now().Add(time.Second))
		conn, err := y.answerOffer()
		if err == nil {
			conn.Close()
		}
		x.Close()
		if err := y.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if after := openDescriptors(t); after > before+int(count%6) {
			t.Errorf("%d descriptors are open, %d were before", after, before)
		}
	})
}

func openDescriptors(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(list)
}
