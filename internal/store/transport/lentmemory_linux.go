package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/compute/shm"
	"golang.org/x/sys/unix"
)

// Large pieces of memory that the peer can map (package shm) are lent: the ring gets a record that
// says where the bytes are, the peer copies them from there, once, and the write returns after
// that. A block's file descriptor is sent over a socket before any of the block is lent, with a
// record that tells the peer to receive it.
//
// When a write is cancelled, at its deadline or with the connection, the caller may change the
// memory at once, while the peer may be copying. The claim, a word of the ring that counts the lent
// records, decides: the reader takes one off when it has all bytes, unless the word says that they
// were withdrawn. For the reader withdrawn records end the stream, and its last Read does not
// return what it has copied of them; so no whole frame contains bytes that were changed.
const (
	claimWithdrawn uint32 = 1 << 31
	// claimRefused: the peer cannot map memory, and no more is lent.
	claimRefused uint32 = 1 << 30
)

const (
	// lendBytes: smaller pieces are written into the ring.
	lendBytes = shm.MinBytes
	// maxBlocks is the most blocks of one end on one connection; pieces of other blocks are
	// written into the ring.
	maxBlocks = 4096
)

// A loan is the state of the memory that a memoryConn lends its peer.
type loan struct {
	over *net.UnixConn // for file descriptors
	// numbers has, by block ID, the numbers of the blocks that the peer has.
	numbers map[uint64]uint32
	// sent is the ID of a block that was sent and that the peer has not received yet; 0: none.
	sent uint64
	// never says that the peer cannot map memory, or that descriptors cannot be sent.
	never bool
	// out says that memory is lent now.
	out bool
}

// lend puts a record for p into the ring; false if p must be copied. The memory is lent until
// awaitReturn or withdraw returns.
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
	_, err := c.await(&c.out, (*ring).isRead, c.out.roomWait, c.roomBell)
	return err
}

func (r *ring) isRead() (int, error) {
	n, err := r.free()
	if err != nil || n < len(r.data) {
		return 0, err
	}
	return 1, nil
}

// number returns the peer's number for the block; 0 if the block cannot be sent to the peer.
func (c *memoryConn) number(b *shm.Block) (uint32, error) {
	l := &c.loan
	if n := l.numbers[b.ID]; n != 0 {
		return n, nil
	}
	if l.sent != 0 && l.sent != b.ID {
		if _, err := c.confirmBlock(); err != nil {
			return 0, err
		}
	}
	if len(l.numbers) >= maxBlocks || l.never {
		return 0, nil
	}
	if l.sent == 0 {
		if _, err := c.freeForRecord(); err != nil {
			return 0, err
		}
		if err := c.sendBlock(b); err != nil {
			// There are most likely too many file descriptors.
			l.never = true
			return 0, nil
		}
		l.sent = b.ID
		c.out.putHeader(c.out.position, 0, uint32(len(l.numbers))+1, 0)
		c.out.position += recordHeader
	}
	return c.confirmBlock()
}

// sendBlock sends the block's descriptor: one to read by, but to the end that answers calls, which
// writes values to where they belong.
func (c *memoryConn) sendBlock(b *shm.Block) error {
	fd := b.File()
	if c.side == 1 {
		only, err := b.ReadOnly()
		if err != nil {
			return err
		}
		defer unix.Close(only)
		fd = only
	}
	raw, err := c.loan.over.SyscallConn()
	if err != nil {
		return err
	}
	if err := c.loan.over.SetWriteDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	var sent error
	err = raw.Write(func(over uintptr) bool {
		_, sent = unix.SendmsgN(int(over), doorbellByte, unix.UnixRights(fd), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return sent != unix.EAGAIN && sent != unix.EINTR
	})
	return errors.Join(err, sent)
}

// receiveBlock receives the descriptors that came with one byte.
func (b *borrowed) receiveBlock() (fds []int, err error) {
	// The descriptor was sent before the record.
	if err := b.from.SetReadDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, err
	}
	raw, err := b.from.SyscallConn()
	if err != nil {
		return nil, err
	}
	var one [1]byte
	var n, size int
	var received error
	control := make([]byte, unix.CmsgSpace(4))
	err = raw.Read(func(from uintptr) bool {
		n, size, _, _, received = unix.Recvmsg(int(from), one[:], control, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		return received != unix.EAGAIN && received != unix.EINTR
	})
	if err = errors.Join(err, received); err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, err
	}
	if messages, err := unix.ParseSocketControlMessage(control[:size]); err == nil {
		for i := range messages {
			more, _ := unix.ParseUnixRights(&messages[i])
			fds = append(fds, more...)
		}
	}
	return fds, nil
}

// confirmBlock waits until the peer has received the block that was sent, and returns its number; 0
// if the peer cannot map it.
func (c *memoryConn) confirmBlock() (uint32, error) {
	l := &c.loan
	c.out.advanceWritten()
	if err := c.awaitRead(); err != nil {
		return 0, err
	}
	id := l.sent
	l.sent = 0
	if atomic.LoadUint32(c.out.claim)&claimRefused != 0 {
		l.never = true
		return 0, nil
	}
	if l.numbers == nil {
		l.numbers = map[uint64]uint32{}
	}
	n := uint32(len(l.numbers)) + 1
	l.numbers[id] = n
	return n, nil
}

// withdraw ends the loans of a failed write: when it returns, the peer no longer reads the memory,
// or what it reads will be dropped. After it the connection can only be closed.
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

// borrowed is the memory that the peer lends.
type borrowed struct {
	from     *net.UnixConn // for file descriptors
	writable bool
	mappings []*shm.Mapping
}

// find returns n bytes of the peer's memory.
func (b *borrowed) find(block uint32, offset uint64, n uint32) ([]byte, error) {
	if block-1 >= uint32(len(b.mappings)) || b.mappings[block-1] == nil {
		return nil, fmt.Errorf("the peer lends memory of its block %d before it has sent the block", block)
	}
	all := b.mappings[block-1].Bytes()
	if offset > uint64(len(all)) || uint64(n) > uint64(len(all))-offset {
		return nil, fmt.Errorf("the peer lends bytes %d to %d of a block of %d", offset, offset+uint64(n), len(all))
	}
	return all[offset : offset+uint64(n)], nil
}

// readLent copies from the peer's memory.
func (c *memoryConn) readLent(p []byte) (int, error) {
	rec := &c.record
	from, err := c.blocks.find(rec.block, rec.offset, uint32(rec.left))
	if err != nil {
		return 0, err
	}
	n := copy(p, from)
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

// take receives block number n. If it cannot map the block it says so in the claim.
func (b *borrowed) take(n uint32, claim *uint32) error {
	if n != uint32(len(b.mappings))+1 || n > maxBlocks {
		return fmt.Errorf("the peer sends its block %d, want %d, and at most %d", n, len(b.mappings)+1, maxBlocks)
	}
	fds, err := b.receiveBlock()
	if err != nil {
		return err
	}
	var m *shm.Mapping
	// There is none if this process has too many open files.
	if len(fds) == 1 {
		m, _ = shm.Map(fds[0], b.writable)
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
