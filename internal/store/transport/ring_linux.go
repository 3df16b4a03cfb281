package transport

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	ringHeader = 2048
	// ringBits is log2 of a ring's bytes; each connection has two rings.
	ringBits    = 20
	maxRingBits = 24
	// ringPiece is how many bytes are copied before the other end is woken.
	ringPiece = 64 << 10
	// ringSpins is how often a ring is checked, yielding to other goroutines in between, before
	// a wait: a byte often comes within microseconds.
	ringSpins = 10
)

// A rawWriter runs a function on a socket that can be written to.
type rawWriter interface {
	Write(func(fd uintptr) bool) error
}

// A ring is one end's state of one direction.
type ring struct {
	written, read         *uint64
	readerWaits, roomWait *uint32
	claim                 *uint32
	roomAt                *uint64
	data                  []byte
	// position is this end's. The copy in shared memory, which the peer may change, is never
	// read back.
	position uint64
	tell     func(fd uintptr) bool
	// via is the socket on which the other end waits.
	via rawWriter
}

// doorbellByte is written to ring the doorbell.
var doorbellByte = []byte{1}

// newRing returns one end's state of a ring, of which index says the direction.
func newRing(memory []byte, index, bits int) ring {
	h, size := index*ringHeader, 1<<bits
	at := func(offset int) unsafe.Pointer { return unsafe.Pointer(&memory[h+offset]) }
	begin := 2*ringHeader + index*size
	return ring{
		written: (*uint64)(at(0)), read: (*uint64)(at(64)), readerWaits: (*uint32)(at(128)), roomWait: (*uint32)(at(192)), claim: (*uint32)(at(256)), roomAt: (*uint64)(at(320)),
		data: memory[begin : begin+size : begin+size],
		tell: func(fd uintptr) bool {
			// If the socket is full, enough bytes are there.
			unix.Syscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&doorbellByte[0])), 1, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
			return true
		},
	}
}

// wake rings the other end's doorbell if it waits. One end changes a position and then reads
// whether the other waits; the other sets that it waits and then reads the position: neither read
// may come before the change is visible. Hence Swap in these places: Store is as strong in ordinary
// builds, but not under the race detector.
func (r *ring) wake(waits *uint32) {
	if atomic.LoadUint32(waits) != 0 && atomic.SwapUint32(waits, 0) != 0 {
		// An error means that the other end has ended, which the next wait notices.
		r.via.Write(r.tell)
	}
}

const recordHeader = 16

// get copies from the ring, beginning at a position; put copies into it.
func (r *ring) get(p []byte, position uint64) {
	at := int(position) & (len(r.data) - 1)
	first := copy(p, r.data[at:])
	copy(p[first:], r.data)
}

// put copies bytes to a position, around the ring's end. The caller has looked that they are
// free.
func (r *ring) put(position uint64, p []byte) {
	at := int(position) & (len(r.data) - 1)
	first := copy(r.data[at:], p)
	copy(r.data, p[first:])
}

// putHeader writes the header of a record. It is announced, with what follows it, by
// advanceWritten.
func (r *ring) putHeader(position uint64, size int, block uint32, offset uint64) {
	var h [recordHeader]byte
	binary.LittleEndian.PutUint32(h[:], uint32(size))
	binary.LittleEndian.PutUint32(h[4:], block)
	binary.LittleEndian.PutUint64(h[8:], offset)
	r.put(position, h[:])
}

// advanceRead announces room to the writer, advanceWritten announces to the reader the bytes up to
// position.
func (r *ring) advanceRead(n int) {
	r.position += uint64(n)
	atomic.SwapUint64(r.read, r.position)
	if int64(r.position-atomic.LoadUint64(r.roomAt)) >= 0 {
		r.wake(r.roomWait)
	}
}

// advanceWritten announces what was put so far, and wakes a reader that waits.
func (r *ring) advanceWritten() {
	if atomic.LoadUint64(r.written) == r.position {
		return
	}
	released()
	atomic.SwapUint64(r.written, r.position)
	r.wake(r.readerWaits)
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

func (r *ring) freeRecord() (int, error) {
	n, err := r.free()
	if n <= recordHeader {
		n = 0
	}
	return n, err
}

func (r *ring) isRead() (int, error) {
	n, err := r.free()
	if err != nil || n < len(r.data) {
		return 0, err
	}
	return 1, nil
}
