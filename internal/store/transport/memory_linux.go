package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/compute/shm"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"golang.org/x/sys/unix"
)

// A memoryConn is a connection through memory that two processes share: a ring of bytes for each
// direction. An end that finds a ring empty (to read) or full (to write) says so in the memory and
// waits on a socket, on which the other end then writes a byte, the doorbell. Reading and writing
// have a socket each, because one goroutine may read while another writes. When the peer ends,
// cleanly or not, the system closes its sockets, which ends the waits here; what it had written
// before can still be read.
//
// The memory has no name (memfd_create): it is freed with its last process. Its size is sealed, so
// that no peer can remove a page under the other; and a peer that writes invalid positions causes
// an error, never an access out of bounds.
//
//	offset  size  of the ring from the end that dialled; those of the other ring are 2048 higher
//	     0     8  bytes written since the beginning
//	    64     8  bytes read since the beginning
//	   128     4  1: the reader waits on the first socket
//	   192     4  1: the writer waits on the second socket
//	   256     4  how many records of lent memory are not read yet; see loan
//	   320     8  the reader's position at which it must wake a waiting writer
//	   512  1536  of the ring from the end that dialled: 4 bytes for each loan of a call; see Loan
//	  4096     n  the bytes, n a power of two; the other ring's follow
//
// The bytes of a ring are records, each of a header and the bytes that it describes; they are
// written and read whole:
//
//	offset  size
//	     0     4  n, a number of bytes
//	     4     4  0: the bytes follow; else the number, from 1, of the block of the writer's memory that has them; with n = 0 the
//	              block's file descriptor has just been sent
//	     8     8  offset in the block
type memoryConn struct {
	// dataBell is where the peer announces data, and roomBell where it announces room to write.
	dataBell, roomBell *doorbell
	peer               net.Addr
	closed             atomic.Bool

	// reading is held by Read.
	reading sync.Mutex
	in      ring
	// record is the one that is being read.
	record record
	// blocks are those of the peer's memory.
	blocks borrowed
	// writing is held by Write.
	writing sync.Mutex
	out     ring
	// loan is what is lent to the peer.
	loan loan
	// side is 0 at the end that dialled.
	side  int
	calls callLoans

	// memory is set to nil while both mutexes are held.
	memory []byte
}

// offerRings creates the memory and sends it to the other end.
func offerRings(nc *net.UnixConn) (net.Conn, error) {
	fd, err := unix.MemfdCreate("paragon-rings", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
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
	blocks, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		unix.Close(pair[0])
		return nil, err
	}
	defer unix.Close(blocks[1])
	c, err := newMemoryConn(nc, fd, pair[0], blocks[0], ringBits, 0)
	if err != nil {
		return nil, err
	}
	message := []byte{'P', 'R', 'G', 'U', offerMemory, ringBits, 0, 0}
	n, _, err := nc.WriteMsgUnix(message, unix.UnixRights(fd, pair[1], blocks[1]), nil)
	if err == nil && n != len(message) {
		err = io.ErrShortWrite
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// acceptRings maps the received memory. It owns the sockets from now on, but not the memory's file
// descriptor.
func acceptRings(nc *net.UnixConn, fd, second, third int, bits uint8) (net.Conn, error) {
	size, err := shm.Sealed(fd)
	switch {
	case err != nil:
	case bits < 12 || bits > maxRingBits:
		err = fmt.Errorf("its rings have 2^%d bytes, want 2^12 to 2^%d", bits, maxRingBits)
	case size != 2*ringHeader+2<<bits:
		err = fmt.Errorf("its memory has %d bytes, want %d", size, 2*ringHeader+2<<bits)
	}
	if err != nil {
		unix.Close(second)
		unix.Close(third)
		return nil, err
	}
	unix.SetNonblock(second, true)
	unix.SetNonblock(third, true)
	return newMemoryConn(nc, fd, second, third, int(bits), 1)
}

// unixConnOf makes a connection of a file descriptor, and owns it from now on.
func unixConnOf(fd int, name string) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), name)
	// Package net has made a copy of the descriptor.
	defer f.Close()
	nc, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := nc.(*net.UnixConn)
	if !ok {
		nc.Close()
		return nil, fmt.Errorf("its file descriptor for %s is not a unix socket", name)
	}
	return u, nil
}

// newMemoryConn maps the memory; the dialling end has side 0. It owns the sockets second and third,
// also when it fails.
func newMemoryConn(nc *net.UnixConn, fd, second, third, bits, side int) (*memoryConn, error) {
	room, err := unixConnOf(second, "bells")
	if err != nil {
		unix.Close(third)
		return nil, err
	}
	blocks, err := unixConnOf(third, "blocks")
	if err != nil {
		room.Close()
		return nil, err
	}
	dataBell, err1 := newDoorbell(nc)
	roomBell, err2 := newDoorbell(room)
	memory, err3 := unix.Mmap(fd, 0, 2*ringHeader+2<<bits, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err := errors.Join(err1, err2, err3); err != nil {
		room.Close()
		blocks.Close()
		if err3 == nil {
			unix.Munmap(memory)
		}
		return nil, err
	}
	c := &memoryConn{dataBell: dataBell, roomBell: roomBell, peer: peerOf(nc), memory: memory,
		out: newRing(memory, side, bits), in: newRing(memory, 1-side, bits),
		blocks: borrowed{from: blocks, writable: side == 1}, loan: loan{over: blocks}, side: side}
	// The peer's reader waits on the first socket.
	c.out.via, c.in.via = dataBell.raw, roomBell.raw
	c.calls.memory, c.calls.blocks = memory, &c.blocks
	return c, nil
}

// transport is for trafficOf.
func (c *memoryConn) transport() int       { return telemetry.SharedMemory }
func (c *memoryConn) LocalAddr() net.Addr  { return hostAddr("memory of this host") }
func (c *memoryConn) RemoteAddr() net.Addr { return c.peer }

func (c *memoryConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
func (c *memoryConn) SetReadDeadline(t time.Time) error  { return c.dataBell.set(t) }
func (c *memoryConn) SetWriteDeadline(t time.Time) error { return c.roomBell.set(t) }

// Close ends waits, and unmaps the memory unless a call lends or borrows some; then the last such
// call does.
func (c *memoryConn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	err := errors.Join(c.dataBell.Close(), c.roomBell.Close(), c.blocks.from.Close())
	defer c.calls.wg.Wait()
	c.reading.Lock()
	defer c.reading.Unlock()
	c.writing.Lock()
	defer c.writing.Unlock()
	c.withdrawLoan()
	c.memory = nil
	return errors.Join(err, c.calls.close())
}

// Read returns the available bytes, or waits for the first ones.
func (c *memoryConn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	for c.record.left == 0 {
		if err := c.nextRecord(); err != nil {
			return 0, err
		}
	}
	if c.record.block != 0 {
		return c.readLent(p)
	}
	r := &c.in
	n := min(c.record.left, len(p), ringPiece)
	r.get(p[:n], r.position)
	c.record.left -= n
	r.advanceRead(n)
	return n, nil
}

// A record is the unread part of a record.
type record struct {
	left   int
	block  uint32
	offset uint64
}

// nextRecord waits for a record and reads its header.
func (c *memoryConn) nextRecord() error {
	r := &c.in
	n, err := c.await(r, (*ring).filled, r.readerWaits, c.dataBell)
	if err != nil {
		return err
	}
	acquired()
	if n < recordHeader {
		return fmt.Errorf("the peer has written %d bytes, want a record's header of %d", n, recordHeader)
	}
	var h [recordHeader]byte
	r.get(h[:], r.position)
	size := binary.LittleEndian.Uint32(h[:])
	block, offset := binary.LittleEndian.Uint32(h[4:]), binary.LittleEndian.Uint64(h[8:])
	switch {
	case block == 0 && (size == 0 || int64(size) > int64(n-recordHeader)), size > math.MaxInt32:
		return fmt.Errorf("the peer's record of %d bytes is not among the %d in the ring", size, n)
	case block == 0:
		r.advanceRead(recordHeader)
	case size == 0:
		if err := c.blocks.take(block, c.in.claim); err != nil {
			return err
		}
		r.advanceRead(recordHeader)
	}
	c.record = record{left: int(size), block: block, offset: offset}
	return nil
}

// Write returns when all of p is in the ring or, where p was lent, when the peer has read it.
func (c *memoryConn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	rest := net.Buffers{p}
	err := c.write(&rest)
	if err == nil {
		return len(p), nil
	}
	c.withdrawLoan()
	if len(rest) > 0 {
		return len(p) - len(rest[0]), err
	}
	return 0, err
}

// writeVector is Write for many pieces; see vectorWriter.
func (c *memoryConn) writeVector(rest *net.Buffers) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.write(rest)
}

// write puts all pieces into the ring, as loans or copies, and waits until the loans are read. It
// wakes the reader when the ring is full or has ringPiece bytes, and at the end.
func (c *memoryConn) write(rest *net.Buffers) error {
	// Then the memory may be unmapped.
	if c.closed.Load() {
		return net.ErrClosed
	}
	for len(*rest) > 0 {
		p := (*rest)[0]
		lent, err := c.lend(p)
		if err != nil {
			return err
		}
		if !lent {
			if err := c.copyIn(rest); err != nil {
				return err
			}
		}
		(*rest)[0] = nil
		*rest = (*rest)[1:]
	}
	c.out.advanceWritten()
	return c.awaitReturn()
}

// copyIn copies the first piece into the ring; after an error, its uncopied rest is the first
// piece.
func (c *memoryConn) copyIn(rest *net.Buffers) error {
	r := &c.out
	for p := &(*rest)[0]; len(*p) > 0; {
		n, err := c.freeForRecord()
		if err != nil {
			return err
		}
		n = min(n-recordHeader, len(*p), ringPiece)
		r.putHeader(r.position, n, 0, 0)
		r.put(r.position+recordHeader, (*p)[:n])
		r.position += recordHeader + uint64(n)
		*p = (*p)[n:]
		if r.position-atomic.LoadUint64(r.written) >= ringPiece {
			r.advanceWritten()
		}
	}
	return nil
}

// freeForRecord waits until a record's header and some bytes fit, and returns how many bytes fit.
func (c *memoryConn) freeForRecord() (int, error) {
	r := &c.out
	if n, err := r.freeRecord(); n > 0 || err != nil {
		return n, err
	}
	r.advanceWritten()
	// Do not wake at the first free byte: a writer that is faster than its reader would be
	// woken for each piece.
	atomic.StoreUint64(r.roomAt, r.position-uint64(len(r.data))/2)
	return c.await(r, (*ring).freeRecord, r.roomWait, c.roomBell)
}

// await waits until there are bytes and returns how many. Data that the peer wrote before it ended
// is still returned.
func (c *memoryConn) await(r *ring, count func(*ring) (int, error), waits *uint32, bell *doorbell) (int, error) {
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
			// A doorbell rung meanwhile only wakes the next wait once too often.
			atomic.StoreUint32(waits, 0)
			return n, err
		}
		if err := bell.wait(); err != nil {
			if n, gone := count(r); n > 0 && gone == nil && errors.Is(err, io.EOF) && bell == c.dataBell {
				return n, nil
			}
			return 0, err
		}
	}
}
