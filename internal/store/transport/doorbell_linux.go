package transport

import (
	"io"
	"net"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A doorbell is a socket on which this end waits. The socket has the deadline only during a wait:
// most reads and writes do not wait, and setting a deadline costs as much as a small frame.
type doorbell struct {
	*net.UnixConn
	raw syscall.RawConn

	// Of the goroutine that waits:
	// drained is where received bytes go.
	drained [64]byte
	err     error
	try     func(fd uintptr) (done bool)

	// mu guards the rest.
	mu       sync.Mutex
	deadline time.Time
	// applied is the socket's deadline.
	applied time.Time
	waiting bool
}

func (b *doorbell) set(t time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deadline = t
	if b.waiting {
		return b.apply()
	}
	return nil
}

// apply sets the socket's deadline. The caller holds mu.
func (b *doorbell) apply() error {
	if b.applied == b.deadline {
		return nil
	}
	b.applied = b.deadline
	return b.SetReadDeadline(b.deadline)
}

// newDoorbell makes a doorbell of a socket.
func newDoorbell(nc *net.UnixConn) (*doorbell, error) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return nil, err
	}
	b := &doorbell{UnixConn: nc, raw: raw}
	b.try = b.receive
	return b, nil
}

// receive reads what is there. The peer may hold the same socket and clear O_NONBLOCK, which would
// make this call block without a deadline. MSG_DONTWAIT prevents that, as in ring.tell, sendBlock
// and receiveBlock.
func (b *doorbell) receive(fd uintptr) (done bool) {
	n, _, errno := unix.Syscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b.drained[0])), uintptr(len(b.drained)), unix.MSG_DONTWAIT, 0, 0)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return false
	case errno != 0:
		b.err = errno
	case n == 0:
		b.err = io.EOF
	}
	return true
}

// wait returns when the doorbell has rung.
func (b *doorbell) wait() error {
	b.mu.Lock()
	b.waiting = true
	err := b.apply()
	b.mu.Unlock()
	if err == nil {
		b.err = nil
		if err = b.raw.Read(b.try); err == nil {
			err = b.err
		}
	}
	b.mu.Lock()
	b.waiting = false
	b.mu.Unlock()
	return err
}
