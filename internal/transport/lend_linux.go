package transport

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/shm"
	"golang.org/x/sys/unix"
)

// Large pieces of memory that the peer can map (package shm) are lent: the ring gets a record that says where the bytes
// lie, the peer copies them from there, once, and the write returns when it has. A block's descriptor goes over a socket
// before anything of it is lent, with a record that tells the peer to fetch it.
//
// Whoever gives a write up, after its deadline or with the connection, may change the memory at once, but the peer may be
// copying. So both ends settle it in the claim, a word of the ring that counts the records under way: the reader takes one off,
// once it has all bytes, if the word does not say that they were withdrawn. What was withdrawn is the end of the stream for the
// reader, whose last Read does not hand out what it has read of it; so no frame is whole that has bytes in it which were
// changed.
const (
	claimWithdrawn uint32 = 1 << 31
	claimRefused   uint32 = 1 << 30 // the peer cannot map memory: nothing is lent any more
)

const (
	lendBytes = shm.MinBytes // the least that is lent
	maxBlocks = 4096         // of one end, on one connection; what lies in others is written
)

// A loan is what a memoryConn lends its peer.
type loan struct {
	over    *net.UnixConn     // for descriptors
	numbers map[uint64]uint32 // of the blocks that the peer has, by ID
	sent    uint64            // ID of a block that the peer is fetching; 0: none
	never   bool              // the peer cannot map memory, or descriptors cannot be sent
	out     bool              // something is lent at the moment
}

// lend puts a record for p into the ring; false if p is to be copied. What was lent is so until awaitReturn or withdraw.
func (c *memoryConn) lend(p []byte) (bool, error) {
	l := &c.loan
	if len(p) < lendBytes || l.never {
		return false, nil
	}
	block, offset, ok := shm.Find(p)
	if !ok {
		return false, nil
	}
	number, err := c.number(block)
	if err != nil || number == 0 {
		return false, err
	}
	if _, err := c.freeForRecord(); err != nil {
		return false, err
	}
	r := &c.out
	l.out = true
	atomic.AddUint32(r.claim, 1)
	r.putHeader(r.position, len(p), number, uint64(offset))
	r.position += recordHeader
	return true, nil
}

// awaitReturn waits until the peer has read all that was lent.
func (c *memoryConn) awaitReturn() error {
	if !c.loan.out {
		return nil
	}
	if err := c.awaitRead(); err != nil {
		return err
	}
	c.loan.out = false
	return nil
}

// awaitRead waits until the peer has read all that is in the ring.
func (c *memoryConn) awaitRead() error {
	atomic.StoreUint64(c.out.roomAt, c.out.position)
	_, err := c.await(&c.out, (*ring).isRead, c.out.roomWait, &c.room)
	return err
}

func (r *ring) isRead() (int, error) {
	n, err := r.free()
	if err != nil || n < len(r.data) {
		return 0, err
	}
	return 1, nil
}

// number returns the number by which the peer knows the block, 0 if it cannot get to know it.
func (c *memoryConn) number(b *shm.Block) (uint32, error) {
	l := &c.loan
	if n := l.numbers[b.ID]; n != 0 {
		return n, nil
	}
	if len(l.numbers) >= maxBlocks {
		return 0, nil
	}
	n := uint32(len(l.numbers)) + 1
	if l.sent != b.ID {
		if _, err := c.freeForRecord(); err != nil {
			return 0, err
		}
		l.over.SetWriteDeadline(time.Now().Add(handshakeTimeout))
		if _, _, err := l.over.WriteMsgUnix(aBell, unix.UnixRights(b.File()), nil); err != nil {
			l.never = true // too many descriptors, most likely
			return 0, nil
		}
		l.sent = b.ID
		c.out.putHeader(c.out.position, 0, n, 0)
		c.out.position += recordHeader
	}
	c.out.advanceWritten()
	if err := c.awaitRead(); err != nil {
		return 0, err
	}
	l.sent = 0
	if atomic.LoadUint32(c.out.claim)&claimRefused != 0 {
		l.never = true
		return 0, nil
	}
	if l.numbers == nil {
		l.numbers = map[uint64]uint32{}
	}
	l.numbers[b.ID] = n
	return n, nil
}

// withdraw ends what is lent by a write that has failed: when it returns, the peer does not read the memory any more, or
// nobody will ever see what it reads. The connection is of no use any more but for Close.
func (c *memoryConn) withdraw() {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.withdrawLoan()
}

func (c *memoryConn) withdrawLoan() {
	if c.loan.out && c.memory != nil {
		atomic.OrUint32(c.out.claim, claimWithdrawn)
		c.loan.out, c.loan.never = false, true
	}
}

// borrowed is the peer's memory.
type borrowed struct {
	from     *net.UnixConn // for descriptors
	mappings []*shm.Mapping
}

// readLent copies from the peer's memory.
func (c *memoryConn) readLent(p []byte) (int, error) {
	rec := &c.record
	if rec.block > uint32(len(c.blocks.mappings)) || c.blocks.mappings[rec.block-1] == nil {
		return 0, fmt.Errorf("the peer lends memory of its block %d before it has sent the block", rec.block)
	}
	all := c.blocks.mappings[rec.block-1].Bytes()
	if rec.offset > uint64(len(all)) || uint64(rec.left) > uint64(len(all))-rec.offset {
		return 0, fmt.Errorf("the peer lends bytes %d to %d of a block of %d", rec.offset, rec.offset+uint64(rec.left), len(all))
	}
	n := copy(p[:min(rec.left, len(p))], all[rec.offset:])
	if n == rec.left {
		if err := takeLoan(c.in.claim); err != nil {
			return 0, err
		}
		c.in.advanceRead(recordHeader)
	}
	rec.offset += uint64(n)
	rec.left -= n
	return n, nil
}

// takeLoan takes one record off the claim.
func takeLoan(claim *uint32) error {
	for {
		switch was := atomic.LoadUint32(claim); {
		case was&claimWithdrawn != 0:
			return errors.New("the peer cancelled a write")
		case was&^claimRefused == 0:
			return errors.New("the peer lends more bytes than it announced")
		case atomic.CompareAndSwapUint32(claim, was, was-1):
			return nil
		}
	}
}

// take fetches block number n. If it cannot be mapped the claim says so.
func (b *borrowed) take(n uint32, claim *uint32) error {
	if n != uint32(len(b.mappings))+1 || n > maxBlocks {
		return fmt.Errorf("the peer sends its block %d, want %d, and at most %d", n, len(b.mappings)+1, maxBlocks)
	}
	if err := b.from.SetReadDeadline(time.Now().Add(handshakeTimeout)); err != nil { // it was sent before the record
		return err
	}
	var one [1]byte
	control := make([]byte, unix.CmsgSpace(4))
	_, size, _, _, err := b.from.ReadMsgUnix(one[:], control)
	if err != nil {
		return err
	}
	var fds []int
	if messages, err := unix.ParseSocketControlMessage(control[:size]); err == nil {
		for i := range messages {
			more, _ := unix.ParseUnixRights(&messages[i])
			fds = append(fds, more...)
		}
	}
	var m *shm.Mapping
	if len(fds) == 1 { // none came if this process has too many open
		m, _ = shm.Map(fds[0])
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	if m == nil {
		atomic.OrUint32(claim, claimRefused)
	}
	b.mappings = append(b.mappings, m)
	return nil
}

func (b *borrowed) close() error {
	var errs []error
	for _, m := range b.mappings {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	b.mappings = nil
	return errors.Join(errs...)
}
