package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/shm"
	"github.com/paragon-train/paragon/internal/store/wire"
	"golang.org/x/sys/unix"
)

// Loans of calls: the end that dialled lends memory for as long as a call lasts. Their words are in
// the memory of the rings, behind the dialler's ring header's fields. The blocks of memory are
// numbered and sent as those of lent records are.

const (
	// loanWords is the offset of the first word.
	loanWords = 512
	maxLoans  = (ringHeader - loanWords) / 4
	// maxRegistering is the most blocks on their way to the peer.
	maxRegistering = 16
)

// callLoans are the loans of a memoryConn, at either end.
type callLoans struct {
	// mu guards all but numbers.
	mu   sync.Mutex
	free []*lentCall
	// made is how many of maxLoans have been made, each with a word.
	made uint32
	// out is the number of loans that are not over.
	out    int
	closed bool
	// memory has the words. It and blocks are unmapped once closed with no loan out.
	memory []byte
	blocks *borrowed
	// registering has the blocks that are on their way, by block ID, and wg waits for that.
	registering map[uint64]bool
	wg          sync.WaitGroup

	// numbers has, by block ID, the blocks that the peer has.
	numbers atomic.Pointer[map[uint64]uint32]
}

// lentMemory is what a call lends.
type lentMemory struct {
	payload, out           []byte
	payloadBlock, outBlock *shm.Block
}

func (m *lentMemory) forget()      { *m = lentMemory{} }
func (m *lentMemory) hasOut() bool { return len(m.out) > 0 }

// detach leaves the peer the old pages of the memory.
func (m *lentMemory) detach() error {
	err := m.payloadBlock.Detach(m.payload)
	if len(m.out) > 0 {
		err = errors.Join(err, m.outBlock.Detach(m.out))
	}
	return err
}

// lendCall implements lender. Only the end that dialled lends.
func (c *memoryConn) lendCall(payload, dst []byte) *lentCall {
	m := lentMemory{payload: payload}
	if c.side != 0 || len(payload) < lendBytes {
		return nil
	}
	var offset, outOffset int
	var number, outNumber uint32
	if m.payloadBlock, offset, number = c.lendable(payload); number == 0 {
		return nil
	}
	if len(dst) >= lendBytes {
		if m.outBlock, outOffset, outNumber = c.lendable(dst); outNumber != 0 {
			m.out = dst
		}
	}
	k := c.calls.take(c)
	if k == nil {
		return nil
	}
	k.memory = m
	b := k.description[:]
	binary.LittleEndian.PutUint32(b[4:], k.generation)
	binary.LittleEndian.PutUint32(b[8:], number)
	binary.LittleEndian.PutUint32(b[12:], outNumber)
	binary.LittleEndian.PutUint64(b[16:], uint64(offset))
	binary.LittleEndian.PutUint64(b[24:], uint64(outOffset))
	binary.LittleEndian.PutUint32(b[32:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(b[36:], uint32(len(m.out)))
	released()
	atomic.StoreUint32(k.word, k.generation|loanLent)
	return k
}

// lendable finds the block of p and the peer's number for it; 0: p cannot be lent for a call. A
// block that the peer does not have is sent to it in the background, because a call must not wait
// for that beyond its deadline.
func (c *memoryConn) lendable(p []byte) (b *shm.Block, offset int, number uint32) {
	b, offset, ok := shm.Find(p)
	if !ok || !b.Alone(offset, len(p)) {
		return nil, 0, 0
	}
	if numbers := c.calls.numbers.Load(); numbers != nil {
		if number = (*numbers)[b.ID]; number != 0 {
			return b, offset, number
		}
	}
	c.register(b, p)
	return b, offset, 0
}

// register sends a block to the peer. p keeps the block from being collected.
func (c *memoryConn) register(b *shm.Block, p []byte) {
	l := &c.calls
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.registering[b.ID] || len(l.registering) >= maxRegistering {
		return
	}
	if l.registering == nil {
		l.registering = map[uint64]bool{}
	}
	l.registering[b.ID] = true
	l.wg.Go(func() {
		c.writing.Lock()
		number, err := uint32(0), net.ErrClosed
		if !c.closed.Load() {
			number, err = c.number(b)
		}
		c.writing.Unlock()
		runtime.KeepAlive(p)
		l.mu.Lock()
		defer l.mu.Unlock()
		// After an error a later call tries again; without one the peer cannot map the
		// block, now or ever.
		if number != 0 || err != nil {
			delete(l.registering, b.ID)
		}
		if number != 0 {
			numbers := map[uint64]uint32{}
			if old := l.numbers.Load(); old != nil {
				maps.Copy(numbers, *old)
			}
			numbers[b.ID] = number
			l.numbers.Store(&numbers)
		}
	})
}

// take returns a loan of its own word and generation, or nil if there are too many.
func (l *callLoans) take(c *memoryConn) *lentCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	var k *lentCall
	switch n := len(l.free); {
	case l.closed:
		return nil
	case n > 0:
		k, l.free = l.free[n-1], l.free[:n-1]
	case l.made < maxLoans:
		k = &lentCall{word: l.word(l.made), owner: c}
		binary.LittleEndian.PutUint32(k.description[:], l.made)
		k.payload[0] = k.description[:]
		l.made++
	default:
		return nil
	}
	k.generation += loanGeneration
	l.out++
	return k
}

func (l *callLoans) word(i uint32) *uint32 {
	return (*uint32)(unsafe.Pointer(&l.memory[loanWords+4*i]))
}

// takeBack ends a call's loan.
func (c *memoryConn) takeBack(k *lentCall) {
	acquired()
	l := &c.calls
	l.mu.Lock()
	l.free = append(l.free, k)
	l.mu.Unlock()
	c.endLoan()
}

// endLoan counts a loan as over, at either end, and unmaps the memory after the last one of a
// closed connection.
func (c *memoryConn) endLoan() error {
	l := &c.calls
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out--
	return l.unmapUnused()
}

// close unmaps the memory, now or after the last loan.
func (l *callLoans) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.unmapUnused()
}

func (l *callLoans) unmapUnused() error {
	if !l.closed || l.out > 0 || l.memory == nil {
		return nil
	}
	err := errors.Join(l.blocks.close(), unix.Munmap(l.memory))
	l.memory, l.free = nil, nil
	return err
}

// borrow implements borrower. Only the connection's reader calls it.
func (c *memoryConn) borrow(description []byte, x *Loan) error {
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(description[at:]) }
	u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(description[at:]) }
	word, generation := u32(0), u32(4)
	if word >= maxLoans || generation%loanGeneration != 0 || c.side != 1 {
		return fmt.Errorf("the peer lends memory by word %d of %d, generation %d", word, maxLoans, generation)
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.closed.Load() {
		return net.ErrClosed
	}
	payload, err := c.blocks.find(u32(8), u64(16), u32(32))
	if err != nil {
		return err
	}
	if len(payload) == 0 || len(payload) > wire.MaxPayload || u64(16)%4 != 0 || u64(24)%4 != 0 {
		return fmt.Errorf("the peer lends %d bytes at offset %d, and room at offset %d, want multiples of 4", len(payload), u64(16), u64(24))
	}
	var out []byte
	if number := u32(12); number != 0 {
		if out, err = c.blocks.find(number, u64(24), u32(36)); err != nil {
			return err
		}
	}
	l := &c.calls
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	l.out++
	acquired()
	*x = Loan{word: l.word(word), generation: generation, payload: payload, out: out, conn: c}
	return nil
}
