package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A memoryConn is a connection through memory that two processes share: a ring of bytes for each direction. Whoever finds a
// ring empty (to read) or full (to write) says so in the memory and waits on a socket, on which the other end then writes a
// byte, the bell. The two kinds of waits have a socket each, for one goroutine may read while another writes. When the peer
// ends, in order or not, the system closes its sockets, and whoever waits finds out; what it had written before can still
// be read.
//
// The memory has no name (memfd_create): it is gone with its last process. Its size is sealed, so that no peer can
// take a page away under the other; and a peer that writes nonsense into the positions is an error, never an access out of
// bounds.
//
//	offset  size  of the ring from the end that dialled; those of the other ring are 2048 higher
//	     0     8  bytes written since the beginning
//	    64     8  bytes read since the beginning
//	   128     4  1: the reader waits on the first socket
//	   192     4  1: the writer waits on the second socket
//	  4096     n  the bytes, n a power of two; the other ring's follow
type memoryConn struct {
	bell, room bells // where data and room are told of
	peer       net.Addr
	closed     atomic.Bool

	reading sync.Mutex // held by Read
	in      ring
	writing sync.Mutex // held by Write
	out     ring

	memory []byte // unmapped under both
}

const (
	ringHeader  = 2048
	ringBits    = 20 // log2 of a ring's bytes; two rings for each connection
	maxRingBits = 24
	ringPiece   = 64 << 10 // as much is copied before the other end hears of it
	ringSpins   = 10       // looks at a ring, other goroutines running between, before a wait
)

// A ring is one direction as one end sees it.
type ring struct {
	written, read         *uint64
	readerWaits, roomWait *uint32
	data                  []byte
	position              uint64 // this end's own of the two; what the memory says of it is not believed
	tell                  func(fd uintptr) bool
	via                   rawWriter // of the socket on which the other end waits
	drained               [64]byte  // where bells are read into
}

// aBell is what is written for a bell.
var aBell = []byte{1}

type rawWriter interface {
	Write(func(fd uintptr) bool) error
}

// bells is a socket on which this end waits. The deadline is the socket's only while somebody waits: most reads and writes
// don't, and setting it costs as much as a small frame.
type bells struct {
	*net.UnixConn
	mu       sync.Mutex // guards the rest
	deadline time.Time
	applied  time.Time // the socket's
	waiting  bool
}

func (b *bells) set(t time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deadline = t
	if b.waiting {
		return b.apply()
	}
	return nil
}

// apply makes the deadline the socket's. The caller holds mu.
func (b *bells) apply() error {
	if b.applied == b.deadline {
		return nil
	}
	b.applied = b.deadline
	return b.SetReadDeadline(b.deadline)
}

// wait returns after a bell.
func (b *bells) wait(drained []byte) error {
	b.mu.Lock()
	b.waiting = true
	err := b.apply()
	b.mu.Unlock()
	if err == nil {
		_, err = b.Read(drained)
	}
	b.mu.Lock()
	b.waiting = false
	b.mu.Unlock()
	return err
}

func newRing(memory []byte, index, bits int) ring {
	h, size := index*ringHeader, 1<<bits
	at := func(offset int) unsafe.Pointer { return unsafe.Pointer(&memory[h+offset]) }
	begin := 2*ringHeader + index*size
	return ring{
		written: (*uint64)(at(0)), read: (*uint64)(at(64)), readerWaits: (*uint32)(at(128)), roomWait: (*uint32)(at(192)),
		data: memory[begin : begin+size : begin+size],
		tell: func(fd uintptr) bool {
			unix.Write(int(fd), aBell) // where it does not fit, there are bells enough
			return true
		},
	}
}

// offerRings makes the memory and sends it to the other end.
func offerRings(nc *net.UnixConn) (net.Conn, error) {
	fd, err := unix.MemfdCreate("paragon", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, 2*ringHeader+2<<ringBits); err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(pair[1])
	c, err := newMemoryConn(nc, fd, pair[0], ringBits, 0)
	if err != nil {
		return nil, err
	}
	message := []byte{'P', 'R', 'G', 'U', offerMemory, ringBits, 0, 0}
	n, _, err := nc.WriteMsgUnix(message, unix.UnixRights(fd, pair[1]), nil)
	if err == nil && n != len(message) {
		err = io.ErrShortWrite
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// acceptRings takes the memory and the socket that came. The socket is its own from now on, the memory's descriptor is not.
func acceptRings(nc *net.UnixConn, fd, second int, bits uint8) (net.Conn, error) {
	const want = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	var stat unix.Stat_t
	switch {
	case err != nil:
	case seals&want != want:
		err = fmt.Errorf("its memory has seals %#x, want at least %#x", seals, want)
	case bits < 12 || bits > maxRingBits:
		err = fmt.Errorf("its rings have 2^%d bytes, want 2^12 to 2^%d", bits, maxRingBits)
	default:
		if err = unix.Fstat(fd, &stat); err == nil && stat.Size != 2*ringHeader+2<<bits {
			err = fmt.Errorf("its memory has %d bytes, want %d", stat.Size, 2*ringHeader+2<<bits)
		}
	}
	if err != nil {
		unix.Close(second)
		return nil, err
	}
	unix.SetNonblock(second, true)
	return newMemoryConn(nc, fd, second, int(bits), 1)
}

// newMemoryConn maps the memory; the end that dialled has side 0. The socket second is its own, also where it fails.
func newMemoryConn(nc *net.UnixConn, fd, second, bits, side int) (*memoryConn, error) {
	f := os.NewFile(uintptr(second), "bells")
	nc2, err := net.FileConn(f)
	f.Close() // net has a copy
	if err != nil {
		return nil, err
	}
	room, ok := nc2.(*net.UnixConn)
	if !ok {
		nc2.Close()
		return nil, errors.New("its second file descriptor is not a unix socket")
	}
	memory, err := unix.Mmap(fd, 0, 2*ringHeader+2<<bits, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		room.Close()
		return nil, err
	}
	c := &memoryConn{bell: bells{UnixConn: nc}, room: bells{UnixConn: room}, peer: peerOf(nc), memory: memory,
		out: newRing(memory, side, bits), in: newRing(memory, 1-side, bits)}
	var err1, err2 error
	c.out.via, err1 = nc.SyscallConn() // the peer's reader waits on the first socket
	c.in.via, err2 = room.SyscallConn()
	if err := errors.Join(err1, err2); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *memoryConn) LocalAddr() net.Addr  { return hostAddr("memory of this host") }
func (c *memoryConn) RemoteAddr() net.Addr { return c.peer }

func (c *memoryConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
func (c *memoryConn) SetReadDeadline(t time.Time) error  { return c.bell.set(t) }
func (c *memoryConn) SetWriteDeadline(t time.Time) error { return c.room.set(t) }

// Close ends waits and gives the memory back.
func (c *memoryConn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	err := errors.Join(c.bell.Close(), c.room.Close())
	c.reading.Lock()
	defer c.reading.Unlock()
	c.writing.Lock()
	defer c.writing.Unlock()
	return errors.Join(err, unix.Munmap(c.memory))
}

// wake rings the bell of the other end if it waits. One end changes a position and then looks whether the other waits, the
// other says that it waits and then looks at the position: neither may look before its change is seen. Hence Swap in these
// places: Store is as strong in ordinary builds, but not under the race detector.
func (r *ring) wake(waits *uint32) {
	if atomic.LoadUint32(waits) != 0 && atomic.SwapUint32(waits, 0) != 0 {
		r.via.Write(r.tell) // an error is the other end's end, which the next wait sees
	}
}

// Read returns what is there, or waits for the first of it.
func (c *memoryConn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	r := &c.in
	n, err := c.await(r, (*ring).filled, r.readerWaits, &c.bell)
	if err != nil {
		return 0, err
	}
	acquired()
	n = min(n, len(p), ringPiece)
	at := int(r.position) & (len(r.data) - 1)
	first := copy(p[:n], r.data[at:])
	copy(p[first:n], r.data)
	r.position += uint64(n)
	atomic.SwapUint64(r.read, r.position)
	r.wake(r.roomWait)
	return n, nil
}

// filled returns how many bytes can be read.
func (r *ring) filled() (int, error) {
	n := atomic.LoadUint64(r.written) - r.position
	if n > uint64(len(r.data)) {
		return 0, fmt.Errorf("the peer says that %d bytes wait in a ring of %d", n, len(r.data))
	}
	return int(n), nil
}

// free returns how many bytes can be written.
func (r *ring) free() (int, error) {
	n := r.position - atomic.LoadUint64(r.read)
	if n > uint64(len(r.data)) {
		return 0, fmt.Errorf("the peer says that %d bytes wait in a ring of %d", int64(n), len(r.data))
	}
	return len(r.data) - int(n), nil
}

// Write returns when all of p is in the ring.
func (c *memoryConn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	r := &c.out
	done := 0
	for done < len(p) {
		n, err := c.await(r, (*ring).free, r.roomWait, &c.room)
		if err != nil {
			return done, err
		}
		n = min(n, len(p)-done, ringPiece)
		at := int(r.position) & (len(r.data) - 1)
		first := copy(r.data[at:], p[done:done+n])
		copy(r.data, p[done+first:done+n])
		done += n
		r.position += uint64(n)
		released()
		atomic.SwapUint64(r.written, r.position)
		r.wake(r.readerWaits)
	}
	return done, nil
}

// await returns how many bytes there are, once there are some. Data that the peer wrote before it ended is still found.
func (c *memoryConn) await(r *ring, count func(*ring) (int, error), waits *uint32, bell *bells) (int, error) {
	for spins := 0; ; spins++ {
		if c.closed.Load() {
			return 0, net.ErrClosed
		}
		if n, err := count(r); n > 0 || err != nil {
			return n, err
		}
		if spins < ringSpins {
			runtime.Gosched()
			continue
		}
		atomic.SwapUint32(waits, 1)
		if n, err := count(r); n > 0 || err != nil {
			atomic.StoreUint32(waits, 0) // a bell that came meanwhile wakes the next wait in vain
			return n, err
		}
		if err := bell.wait(r.drained[:]); err != nil {
			if n, gone := count(r); n > 0 && gone == nil && errors.Is(err, io.EOF) && bell == &c.bell {
				return n, nil
			}
			return 0, err
		}
	}
}
