package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// dialledEnv makes the test's binary a process that connects to the address in it, writes, and
// waits to be killed.
const dialledEnv = "PARAGON_TEST_DIAL"

func TestMain(m *testing.M) {
	if addr := os.Getenv(lendingEnv); addr != "" {
		lendUntilKilled(addr)
	}
	addr := os.Getenv(dialledEnv)
	if addr == "" {
		os.Exit(m.Run())
	}
	nc, err := dialMet(context.Background(), Auto, addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprint(nc, "the last words")
	nc.Read(make([]byte, 1))
	os.Exit(1)
}

func listenAuto(t *testing.T) net.Listener {
	t.Helper()
	ln, err := Auto.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// dialMet dials and does all that comes before the first frame; acceptMet does the same at the
// other end.
func dialMet(ctx context.Context, n Network, addr string) (net.Conn, error) {
	nc, err := n.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	conn, err := new(Config).handshakeServer(nc, time.Now().Add(10*time.Second))
	if err != nil {
		nc.Close()
	}
	return conn, err
}

func acceptMet(ln net.Listener) (net.Conn, error) {
	nc, err := ln.Accept()
	if err != nil {
		return nil, err
	}
	conn, _, err := new(Config).handshakeClient(nc, time.Now().Add(10*time.Second))
	if err != nil {
		nc.Close()
	}
	return conn, err
}

// meeting connects to a listener and returns both ends.
func meeting(t testing.TB, n Network, ln net.Listener) (dialled, accepted net.Conn) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		var err error
		accepted, err = acceptMet(ln)
		done <- err
	}()
	dialled, err := dialMet(t.Context(), n, ln.Addr().String())
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	return dialled, accepted
}

// pair returns the two ends of a connection through memory.
func pair(t *testing.T) (dialled, accepted *memoryConn) {
	t.Helper()
	ln := listenAuto(t)
	a, b := meeting(t, Auto, ln)
	t.Cleanup(func() { a.Close(); b.Close() })
	ma, ok1 := a.(*memoryConn)
	mb, ok2 := b.(*memoryConn)
	if !ok1 || !ok2 {
		t.Fatalf("got connections %T and %T, want both through memory", a, b)
	}
	return ma, mb
}

func TestAutoTakesTheShortestWay(t *testing.T) {
	name := func(nc net.Conn) string {
		if s, ok := nc.(*socketConn); ok {
			return s.LocalAddr().Network() + " socket"
		}
		return fmt.Sprintf("%T", nc)
	}
	kind := func(ln net.Listener, n Network) string {
		nc, other := meeting(t, n, ln)
		defer nc.Close()
		defer other.Close()
		return name(nc) + ", " + name(other)
	}
	for _, listen := range []string{"127.0.0.1:0", ":0", "[::1]:0"} {
		ln, err := Auto.Listen(listen)
		if err != nil {
			t.Logf("listen on %s: %v", listen, err) // a machine without IPv6
			continue
		}
		for n, want := range map[Network]string{Auto: "*transport.memoryConn, *transport.memoryConn", Unix: "unix socket, unix socket", TCP: "tcp socket, tcp socket"} {
			if got := kind(ln, n); got != want {
				t.Errorf("%+v to %s: got %s, want %s", n, listen, got, want)
			}
		}
		ln.Close()
	}
	ln, err := TCP.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if got, want := kind(ln, Auto), "tcp socket, tcp socket"; got != want {
		t.Errorf("to a listener on TCP alone: got %s, want %s", got, want)
	}
	if ownAddress(netip.MustParseAddr("192.0.2.1")) {
		t.Error("192.0.2.1 is nobody's, got this host's")
	}
}

// Bytes come out as they went in, whatever the pieces, in both directions at once.
func TestMemoryKeepsBytesInOrder(t *testing.T) {
	a, b := pair(t)
	var wg sync.WaitGroup
	const total = 5<<20 + 12345
	for i, way := range []struct{ from, to net.Conn }{{a, b}, {b, a}} {
		sent := make([]byte, total)
		random := rand.New(rand.NewPCG(1, uint64(i)))
		for j := range sent {
			sent[j] = byte(random.Uint32())
		}
		wg.Go(func() {
			random := rand.New(rand.NewPCG(2, uint64(i)))
			for rest := sent; len(rest) > 0; {
				n := min(1+random.IntN(1<<random.IntN(22)), len(rest))
				if _, err := way.from.Write(rest[:n]); err != nil {
					t.Errorf("write: %v", err)
					return
				}
				rest = rest[n:]
			}
		})
		wg.Go(func() {
			random := rand.New(rand.NewPCG(3, uint64(i)))
			got := make([]byte, 0, total)
			for len(got) < total {
				n, err := way.to.Read(got[len(got):min(len(got)+1+random.IntN(1<<random.IntN(20)), total)])
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				got = got[:len(got)+n]
			}
			if !bytes.Equal(got, sent) {
				t.Error("got other bytes than were sent")
			}
		})
	}
	wg.Wait()
}

func TestMemoryWaitsEndInTime(t *testing.T) {
	a, _ := pair(t)
	soon := time.Now().Add(20 * time.Millisecond)
	a.SetDeadline(soon)
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: got error %v, want %v", err, os.ErrDeadlineExceeded)
	}
	if n, err := a.Write(make([]byte, 3<<ringBits)); n < 1<<ringBits-1<<10 || n > 1<<ringBits || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write to a peer that does not read: got %d bytes and error %v, want a full ring and %v", n, err, os.ErrDeadlineExceeded)
	}
	a.SetDeadline(time.Time{})
	ended := make(chan error, 2)
	go func() { _, err := a.Read(make([]byte, 1)); ended <- err }()
	go func() { _, err := a.Write(make([]byte, 1)); ended <- err }()
	runtime.Gosched()
	a.Close()
	for range 2 {
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("a wait when the connection was closed: got error %v, want %v", err, net.ErrClosed)
		}
	}
	if err := a.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a second close: got error %v, want %v", err, net.ErrClosed)
	}
}

// What a process had written before it was killed is read, then the connection ends; so does a
// write that waits.
func TestMemoryNoticesAKilledPeer(t *testing.T) {
	ln := listenAuto(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env, cmd.Stderr = append(os.Environ(), dialledEnv+"="+ln.Addr().String()), os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	nc, err := acceptMet(ln)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if got, want := nc.RemoteAddr().String(), fmt.Sprintf("pid %d of this host", cmd.Process.Pid); got != want {
		t.Errorf("got peer %q, want %q", got, want)
	}
	write := make(chan error)
	go func() { _, err := nc.Write(make([]byte, 2<<ringBits)); write <- err }()
	words := make([]byte, len("the last words"))
	if _, err := io.ReadFull(nc, words[:4]); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if _, err := io.ReadFull(nc, words[4:]); err != nil || string(words) != "the last words" {
		t.Errorf("what was there: got %q and error %v", words, err)
	}
	nc.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := nc.Read(words); !isGone(err) {
		t.Errorf("read from a killed peer: got error %v, want the end", err)
	}
	if err := <-write; !isGone(err) {
		t.Errorf("write to a killed peer: got error %v, want the end", err)
	}
}

func isGone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}

// A peer that writes nonsense where positions stand is an error.
func TestMemoryRefusesPositionsThatCannotBe(t *testing.T) {
	for written, read := range map[uint64]uint64{1<<ringBits + 1: 1, 1 << 63: 1 << 63, ^uint64(0): 1 << 40} {
		a, b := pair(t)
		atomic.StoreUint64(a.out.written, written)
		if _, err := b.Read(make([]byte, 100)); err == nil || !strings.Contains(err.Error(), "wait in a ring") {
			t.Errorf("read with %#x bytes written: got error %v", written, err)
		}
		atomic.StoreUint64(a.in.read, read)
		if _, err := b.Write(make([]byte, 100)); err == nil || !strings.Contains(err.Error(), "wait in a ring") {
			t.Errorf("write with %#x bytes read: got error %v", read, err)
		}
	}
}

// Offers that are none are closed, and leave nothing behind; the listener goes on.
func TestListenerSurvivesBadOffers(t *testing.T) {
	ln := listenAuto(t)
	go func() {
		for {
			nc, err := acceptMet(ln)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				nc.Write([]byte("welcome"))
				nc.Close()
			}
		}
	}()
	name := socketName(netip.MustParseAddrPort(ln.Addr().String()))
	memory := func(size int64, seals int) int {
		fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		unix.Ftruncate(fd, size)
		unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		return fd
	}
	good := []byte{'P', 'R', 'G', 'U', offerMemory, ringBits, 0, 0}
	const size, sealed = 2*ringHeader + 2<<ringBits, unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	before := descriptors(t)
	for what, offer := range map[string]struct {
		message []byte
		fds     func() []int
	}{
		"nothing of ours":      {message: []byte("GET / HT")},
		"half an offer":        {message: good[:3]},
		"memory without fds":   {message: good},
		"fds without memory":   {message: []byte("PRGU\x01\x00\x00\x00"), fds: func() []int { return []int{memory(size, sealed)} }},
		"no seals":             {message: good, fds: func() []int { return []int{memory(size, 0), memory(1, 0), memory(1, 0)} }},
		"half of the seals":    {message: good, fds: func() []int { return []int{memory(size, unix.F_SEAL_GROW), memory(1, 0), memory(1, 0)} }},
		"another size":         {message: good, fds: func() []int { return []int{memory(size-1, sealed), memory(1, 0), memory(1, 0)} }},
		"rings of no size":     {message: []byte("PRGU\x02\xff\x00\x00"), fds: func() []int { return []int{memory(size, sealed), memory(1, 0), memory(1, 0)} }},
		"no socket for bells":  {message: good, fds: func() []int { return []int{memory(size, sealed), memory(1, 0), memory(1, 0)} }},
		"two fds":              {message: good, fds: func() []int { return []int{memory(size, sealed), memory(1, 0)} }},
		"more fds than wanted": {message: good, fds: func() []int { return []int{memory(size, sealed), memory(1, 0), memory(1, 0), memory(1, 0)} }},
	} {
		nc, err := net.Dial("unix", name)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		var rights []byte
		if offer.fds != nil {
			fds := offer.fds()
			rights = unix.UnixRights(fds...)
			defer func() {
				for _, fd := range fds {
					unix.Close(fd)
				}
			}()
			before += len(fds)
		}
		if err := proveToServer(nc, nil, 0); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, _, err := nc.(*net.UnixConn).WriteMsgUnix(offer.message, rights, nil); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if b, _ := io.ReadAll(nc); len(b) > 0 {
			t.Errorf("%s: got the answer %q, want none", what, b)
		}
		nc.Close()
	}
	nc, err := dialMet(t.Context(), Auto, ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(nc); err != nil || string(b) != "welcome" {
		t.Errorf("a good offer afterwards: got %q and error %v", b, err)
	}
	nc.Close()
	wantDescriptors(t, before)
}

// A process of the same user that does not hold the secret has no memory mapped and leaves no
// descriptor open, whenever it sends them.
func TestStrangersOfTheSameUserHaveNothingMapped(t *testing.T) {
	ln := listenAuto(t)
	cfg := Config{Secret: []byte("secret")}
	over := make(chan error)
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			_, _, err = cfg.handshakeClient(nc, time.Now().Add(300*time.Millisecond))
			nc.Close()
			over <- err
		}
	}()
	hello := newHello(0)
	offer := []byte{'P', 'R', 'G', 'U', offerMemory, ringBits, 0, 0}
	before := descriptors(t)
	for what, messages := range map[string][][]byte{
		"an offer first":               {offer},
		"an offer after the hello":     {hello[:], offer},
		"descriptors with the hello":   {hello[:]},
		"an offer after a wrong proof": {hello[:], make([]byte, proofSize), offer},
	} {
		nc, err := net.Dial("unix", socketName(netip.MustParseAddrPort(ln.Addr().String())))
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.MemfdCreate("strangers-memory", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		unix.Ftruncate(fd, 2*ringHeader+2<<ringBits)
		unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
		bells, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		rights := unix.UnixRights(fd, bells[0], bells[1])
		for _, m := range messages {
			nc.(*net.UnixConn).WriteMsgUnix(m, rights, nil) // an error: it was closed already
		}
		if err := <-over; err == nil {
			t.Errorf("%s: it got in", what)
		}
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Skip(err)
		}
		if strings.Contains(string(maps), "strangers-memory") {
			t.Errorf("%s: its memory is mapped", what)
		}
		for _, fd := range []int{fd, bells[0], bells[1]} {
			unix.Close(fd)
		}
		nc.Close()
	}
	wantDescriptors(t, before)
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	return len(list)
}

// wantDescriptors waits a moment for goroutines that are just closing.
func wantDescriptors(t *testing.T, want int) {
	t.Helper()
	got := 0
	for range 100 {
		if got = descriptors(t); got <= want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("got %d open file descriptors, want %d as before", got, want)
}

// Connections that were closed leave no descriptors and no memory.
func TestMemoryLeavesNothingBehind(t *testing.T) {
	ln := listenAuto(t)
	memory := sharable(100_000, 1)
	before := descriptors(t)
	for range 20 {
		a, b := meeting(t, Auto, ln)
		go a.Write(memory) // lent
		if _, err := io.ReadFull(b, make([]byte, len(memory))); err != nil {
			t.Fatal(err)
		}
		a.Close()
		b.Close()
	}
	wantDescriptors(t, before)
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		// Memory of this process's own, which it may lend, is the collector's; a peer's is
		// mapped to be read.
		if strings.Contains(line, "memfd:paragon-rings") || strings.Contains(line, "memfd:") && strings.Contains(line, " r--s ") {
			t.Errorf("a mapping is left: %s", line)
		}
	}
}

// Another user's process gets no further than the socket.
func TestUnixSocketIsForOneUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	ln := listenAuto(t)
	name := socketName(netip.MustParseAddrPort(ln.Addr().String()))
	got := make(chan string, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread, which is another user's now, ends with the goroutine
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
			got <- "setresuid: " + errno.Error()
			return
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			defer unix.Close(fd)
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: name})
		}
		if err != nil {
			got <- err.Error()
			return
		}
		n, err := unix.Read(fd, make([]byte, 1))
		got <- fmt.Sprint(n, err)
	}()
	if s := <-got; s != "0 <nil>" {
		t.Errorf("another user's connection: got %q, want it closed at once", s)
	}
}

func BenchmarkMemory(b *testing.B) {
	for name, n := range map[string]Network{"tcp": TCP, "unix": Unix, "auto": Auto} {
		for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("network=%s/bytes=%d", name, size), func(b *testing.B) {
				ln, err := n.Listen("127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				defer ln.Close()
				nc, other := meeting(b, n, ln)
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer other.Close()
					buf, err := make([]byte, 1<<20), error(nil)
					for err == nil {
						_, err = other.Read(buf)
					}
				}()
				buf := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := nc.Write(buf); err != nil {
						b.Fatal(err)
					}
				}
				nc.Close()
				<-done
			})
		}
	}
}
