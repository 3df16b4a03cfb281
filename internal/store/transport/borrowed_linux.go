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

// borrowed is the memory that the peer lends.
type borrowed struct {
	// from is where file descriptors come from.
	from     *net.UnixConn
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
