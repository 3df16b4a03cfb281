package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"golang.org/x/sys/unix"
)

// socketName is the abstract socket name for a TCP address. All interfaces are written as a star.
func socketName(ap netip.AddrPort) string {
	if ap.Addr().IsUnspecified() {
		return fmt.Sprintf("@paragon/*:%d", ap.Port())
	}
	return "@paragon/" + netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port()).String()
}

// listenWithin adds a unix socket to a listener. If that fails it returns the listener alone.
func listenWithin(tcp net.Listener) net.Listener {
	ap, err := netip.ParseAddrPort(tcp.Addr().String())
	if err != nil {
		return tcp
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: socketName(ap)})
	if err != nil {
		return tcp
	}
	l := &bothListener{Listener: tcp, unix: ln, accepted: make(chan accepted), closed: make(chan struct{})}
	l.wg.Go(func() { l.acceptTCP() })
	l.wg.Go(func() { l.acceptUnix() })
	return l
}

// A bothListener accepts from its TCP and its unix listener. Its address is TCP's.
type bothListener struct {
	net.Listener
	unix     *net.UnixListener
	accepted chan accepted
	closing  sync.Once
	closed   chan struct{}
	// wg waits for the goroutines that accept.
	wg sync.WaitGroup
}

type accepted struct {
	nc  net.Conn
	err error
}

func (l *bothListener) Accept() (net.Conn, error) {
	select {
	case a := <-l.accepted:
		return a.nc, a.err
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
	}
}

func (l *bothListener) Close() error {
	err := net.ErrClosed
	l.closing.Do(func() {
		close(l.closed)
		l.unix.Close()
		err = l.Listener.Close()
		l.wg.Wait()
	})
	return err
}

// hand passes a connection or an error to Accept. With an error it waits until Accept has taken it.
func (l *bothListener) hand(nc net.Conn, err error) {
	select {
	case l.accepted <- accepted{nc, err}:
	case <-l.closed:
		if nc != nil {
			nc.Close()
		}
	}
}

func (l *bothListener) acceptTCP() {
	for {
		nc, err := l.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		l.hand(nc, err)
	}
}

func (l *bothListener) acceptUnix() {
	for {
		nc, err := l.unix.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			l.hand(nil, err)
			continue
		}
		if !sameUser(nc) {
			nc.Close()
			continue
		}
		l.hand(&unixConn{UnixConn: nc, peer: peerOf(nc)}, nil)
	}
}

// dialWithin connects to a listener of this host, or returns nil.
func dialWithin(ctx context.Context, addr string, memory bool) net.Conn {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	for _, ip := range ips {
		if !ownAddress(ip) {
			continue
		}
		for _, at := range []netip.Addr{ip, netip.IPv6Unspecified()} {
			if nc := dialUnix(ctx, socketName(netip.AddrPortFrom(at, uint16(number)))); nc != nil {
				return &unixConn{UnixConn: nc, peer: peerOf(nc), memory: memory}
			}
		}
	}
	return nil
}

func dialUnix(ctx context.Context, name string) *net.UnixConn {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", name)
	if err != nil {
		return nil
	}
	if u := nc.(*net.UnixConn); sameUser(u) {
		return u
	}
	nc.Close()
	return nil
}

// ownAddress reports whether an address is this host's.
func ownAddress(ip netip.Addr) bool {
	ip = ip.Unmap()
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	all, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(all, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap() == ip.WithZone("")
	})
}

// sameUser reports whether the process at the other end has this process's user.
func sameUser(nc *net.UnixConn) bool {
	same := false
	if raw, err := nc.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
			same = err == nil && int(cred.Uid) == os.Geteuid()
		})
	}
	return same
}

// An offer is what the dialling end sends on a unix socket after the handshake:
//
//	offset  size  field
//	     0     4  "PRGU"
//	     4     1  1: frames follow on this socket
//	              2: frames follow in the shared memory that came with the message; see memoryConn
//	     5     1  with kind 2, log2 of a ring's bytes
//	     6     2  zeros
//
// With kind 2 come three file descriptors: the memory, a socket for the second doorbell, and one
// over which each end sends the descriptors of memory that it lends.
const (
	offerSize   = 8
	offerSocket = 1
	offerMemory = 2
)

// A unixConn is a unix socket that names its peer's process.
type unixConn struct {
	*net.UnixConn
	peer net.Addr
	// memory says that shared memory is offered.
	memory bool
}

func (c *unixConn) RemoteAddr() net.Addr { return c.peer }

// unixBuffer is the buffer size requested for a unix socket; the system may give less.
const unixBuffer = 1 << 20

// offer implements localConn.
func (c *unixConn) offer() (net.Conn, error) {
	if c.memory {
		if conn, err := offerRings(c.UnixConn); err == nil {
			return conn, nil
		}
		// Without shared memory the socket is used.
	}
	c.SetWriteBuffer(unixBuffer)
	if _, err := c.Write([]byte{'P', 'R', 'G', 'U', offerSocket, 0, 0, 0}); err != nil {
		return nil, err
	}
	return newSocketConn(c, telemetry.UnixSocket), nil
}

// answerOffer implements localConn.
func (c *unixConn) answerOffer() (_ net.Conn, err error) {
	var message [offerSize]byte
	var fds []int
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	control := make([]byte, unix.CmsgSpace(4*4))
	n, size, _, _, err := c.ReadMsgUnix(message[:], control)
	if err != nil {
		return nil, err
	}
	if messages, err := unix.ParseSocketControlMessage(control[:size]); err == nil {
		for i := range messages {
			more, _ := unix.ParseUnixRights(&messages[i])
			fds = append(fds, more...)
		}
	}
	if n != offerSize || string(message[:4]) != "PRGU" {
		return nil, fmt.Errorf("want an offer, got %q", message[:n])
	}
	switch {
	case message[4] == offerSocket && len(fds) == 0:
		c.SetWriteBuffer(unixBuffer)
		return newSocketConn(c, telemetry.UnixSocket), nil
	case message[4] == offerMemory && len(fds) == 3:
		sockets := fds[1:]
		fds = fds[:1]
		return acceptRings(c.UnixConn, fds[0], sockets[0], sockets[1], message[5])
	}
	return nil, fmt.Errorf("got an offer of kind %d with %d file descriptors", message[4], len(fds))
}
