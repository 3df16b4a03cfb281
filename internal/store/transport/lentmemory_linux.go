package transport

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/compute/shm"
	"golang.org/x/sys/unix"
)

// A loan is the state of the memory that a memoryConn lends its peer.
type loan struct {
	// over is the socket that file descriptors are sent over.
	over *net.UnixConn
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
