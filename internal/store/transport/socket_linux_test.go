package transport

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sockets returns the two ends of a TCP connection.
func sockets(t *testing.T) (a, b *socketConn) {
	t.Helper()
	ln, err := TCP.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	x, err := TCP.Dial(t.Context(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	y, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { y.Close() })
	return x.(*socketConn), y.(*socketConn)
}

// cutRandomly cuts random bytes at random places, also into nothing.
func cutRandomly(n, cuts int) (v net.Buffers, whole []byte) {
	whole = make([]byte, n)
	seed := rand.NewChaCha8([32]byte{1})
	seed.Read(whole)
	rng := rand.New(seed)
	at := 0
	for range cuts {
		k := rng.IntN(2*n/cuts + 1)
		k = min(k, n-at)
		v = append(v, whole[at:at+k])
		at += k
	}
	return append(v, whole[at:], nil), whole
}

func TestSocketCarriesAllPieces(t *testing.T) {
	for _, test := range []struct{ bytes, cuts int }{{1, 1}, {100, 7}, {3 * maxPieces, 3 * maxPieces}, {5*callBytes + 3, 4}, {2 * callBytes, 2 * maxPieces}} {
		a, b := sockets(t)
		v, want := cutRandomly(test.bytes, test.cuts)
		got := make([]byte, len(want))
		read := make(chan error, 1)
		go func() {
			_, err := io.ReadFull(b, got)
			read <- err
		}()
		if err := a.writeVector(&v); err != nil || len(v) > 0 && payloadSize(v) > 0 {
			t.Fatalf("%d bytes in %d pieces: %d left, %v", test.bytes, test.cuts, payloadSize(v), err)
		}
		if err := <-read; err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes in %d pieces: read others, %v", test.bytes, test.cuts, err)
		}
	}
}

// A write that ran into its deadline goes on where it stopped.
func TestSocketWriteContinuesAfterADeadline(t *testing.T) {
	a, b := sockets(t)
	a.Conn.(*net.TCPConn).SetWriteBuffer(64 << 10)
	b.Conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	v, want := cutRandomly(4<<20, 100) // more than the buffers hold
	got, written := make([]byte, len(want)), make(chan error, 1)
	write := func() { written <- a.writeVector(&v) }
	go write()
	if _, err := io.ReadFull(b, got[:1]); err != nil {
		t.Fatal(err)
	}
	a.SetWriteDeadline(time.Unix(1, 0))
	err := <-written
	if left := payloadSize(v); !errors.Is(err, os.ErrDeadlineExceeded) || left == 0 || left == len(want) {
		t.Fatalf("to a peer that does not read: %d bytes of %d left, %v, want a part and %v", left, len(want), err, os.ErrDeadlineExceeded)
	}
	a.SetWriteDeadline(time.Time{})
	go write()
	if _, err := io.ReadFull(b, got[1:]); err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %v, or other bytes than were written", err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

func TestSocketReadsEnd(t *testing.T) {
	a, b := sockets(t)
	b.SetReadDeadline(time.Now().Add(time.Millisecond))
	if n, err := b.Read(make([]byte, 10)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: got %d, %v, want %v", n, err, os.ErrDeadlineExceeded)
	}
	b.SetReadDeadline(time.Time{})
	if n, err := b.Read(nil); n != 0 || err != nil {
		t.Errorf("of nothing: got %d, %v, want 0 and no error", n, err)
	}

	waiting := make(chan error, 1)
	go func() {
		_, err := a.Read(make([]byte, 1))
		waiting <- err
	}()
	b.Close()
	if err := <-waiting; err != io.EOF { //nolint:errorlint // as an io.Reader is to return it
		t.Errorf("the peer closed: got %v, want EOF", err)
	}
	go func() {
		_, err := b.Read(make([]byte, 1))
		waiting <- err
	}()
	if err := <-waiting; !errors.Is(err, net.ErrClosed) {
		t.Errorf("of a closed connection: got %v, want %v", err, net.ErrClosed)
	}
}

// An error of the system names the operation and both ends.
func TestSocketErrorsNameTheConnection(t *testing.T) {
	a, b := sockets(t)
	b.Conn.(*net.TCPConn).SetLinger(0) // close with a reset
	b.Close()
	_, err := a.Read(make([]byte, 1))
	if !errors.Is(err, syscall.ECONNRESET) || !strings.Contains(err.Error(), "read tcp "+a.LocalAddr().String()) {
		t.Errorf("read: got %v, want a reset of the connection with its addresses", err)
	}
	v := net.Buffers{make([]byte, 10)}
	if err := a.writeVector(&v); !errors.Is(err, syscall.EPIPE) || !strings.Contains(err.Error(), "write tcp "+a.LocalAddr().String()) {
		t.Errorf("write: got %v, want a broken pipe with the addresses", err)
	}
}

// Both ends of a connection within the machine have cubic from the beginning, others the system's
// choice.
func TestCongestionControlIsChosenBeforeTheConnection(t *testing.T) {
	of := func(c syscall.Conn) (name string) {
		t.Helper()
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		raw.Control(func(fd uintptr) { name, err = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION) })
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	system := of(plain.(*net.TCPListener))
	raw, err := plain.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	congestionControl(raw, withinMachine)
	if got := of(plain.(*net.TCPListener)); got != withinMachine {
		t.Skipf("this system has no %s, or does not allow it: %s stays", withinMachine, got)
	}
	ln, err := TCP.Listen(":0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	if got := of(ln.(*tcpListener).Listener.(*net.TCPListener)); got != withinMachine {
		t.Errorf("the listener: got %s, want %s: connections begin with it", got, withinMachine)
	}
	hosts := map[string]string{"127.0.0.1": withinMachine}
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			hosts[p.Addr().String()] = system // its own address, and not loopback
		}
	}
	for host, want := range hosts {
		x, err := TCP.Dial(t.Context(), net.JoinHostPort(host, port))
		if err != nil {
			t.Fatal(err)
		}
		y, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		for end, nc := range map[string]net.Conn{"dialled": x, "accepted": y} {
			if got := of(nc.(*socketConn).Conn.(*net.TCPConn)); got != want {
				t.Errorf("%s, %s: got %s, want %s", host, end, got, want)
			}
			nc.Close()
		}
	}
}
