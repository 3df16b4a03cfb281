package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
)

// bubble runs a test on fake time, with a Server of h at s:7000. The server is gone before the
// bubble ends.
func bubble(t *testing.T, h Handler, cfg Config, test func(t *testing.T, n *faultnet.Network)) {
	synctest.Test(t, func(t *testing.T) {
		n := faultnet.New(1)
		ln, err := n.Host("s").Listen("s:7000")
		if err != nil {
			t.Fatal(err)
		}
		serve(t, ln, h, cfg)
		test(t, n)
	})
}

func dialer(t *testing.T, n *faultnet.Network, cfg Config) *Client {
	cfg.Network = n.Host("c")
	return client(t, "s:7000", cfg)
}

// waiting is a Handler whose answers to Barrier wait until open is closed.
func waiting() (h *handler, open chan struct{}) {
	open = make(chan struct{})
	h = new(handler)
	h.serve = func(ctx context.Context, r *Request) (Response, error) {
		if r.Kind == wire.KindBarrier {
			select {
			case <-open:
			case <-ctx.Done():
				return Response{}, ctx.Err()
			}
			return Response{Message: &wire.Value{N: 4}, Payload: [][]byte{{9, 9, 9, 9}}}, nil
		}
		return (&handler{}).Serve(ctx, r)
	}
	return h, open
}

func TestACallEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, open := waiting()
		defer close(open)
		n := faultnet.New(1)
		ln, _ := n.Host("s").Listen("s:7000")
		serve(t, ln, h, Config{})
		c := dialer(t, n, Config{})
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := c.Call(ctx, &wire.Barrier{}, &wire.Value{}, make([]byte, 4))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("got %v after %v, want the deadline after 3s", err, time.Since(start))
		}
	})
}

// What comes after a call was given up must not reach the caller's memory, and the connection stays
// good.
func TestALateAnswerDoesNotTouchTheCallersMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, open := waiting()
		n := faultnet.New(1)
		ln, _ := n.Host("s").Listen("s:7000")
		serve(t, ln, h, Config{})
		c := dialer(t, n, Config{Connections: 1})
		ctx, cancel := context.WithCancel(t.Context())
		dst := make([]byte, 4)
		var v wire.Value
		done := make(chan error)
		go func() { _, err := c.Call(ctx, &wire.Barrier{}, &v, dst); done <- err }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		close(open)
		synctest.Wait() // the answer has come by now
		if dst[0] != 0 || v.N != 0 {
			t.Errorf("dst is %v and the answer %+v", dst, v)
		}
		if b, err := c.Call(t.Context(), &wire.Pull{Round: 4}, &v, dst); err != nil || !bytes.Equal(b, pattern(0, 4)) {
			t.Errorf("the next call: %v, %v", b, err)
		}
	})
}

// An answer whose payload stops half way is being read into dst: giving the call up must end that.
func TestACallGivenUpInTheMiddleOfItsAnswerOwnsItsMemoryAgain(t *testing.T) {
	bubble(t, new(handler), Config{}, func(t *testing.T, n *faultnet.Network) {
		c := dialer(t, n, Config{Connections: 1})
		var v wire.Value
		if _, err := c.Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		dst := make([]byte, 8<<20)
		n.Delay("s", "c", 10*time.Second, 10*time.Second) // the payload comes in pieces, 10 s apart
		go func() { _, err := c.Call(ctx, &wire.Pull{Round: 8 << 20}, &v, dst); done <- err }()
		time.Sleep(25 * time.Second)
		start := time.Now()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || time.Since(start) > time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		clear(dst) // the race detector sees a reader that is still at it
		n.Heal()
		synctest.Wait()
		if i := bytes.IndexFunc(dst, func(r rune) bool { return r != 0 }); i >= 0 {
			t.Errorf("byte %d of dst was written after the return", i)
		}
		if b, err := c.Call(t.Context(), &wire.Pull{Round: 4}, &v, dst); err != nil || len(b) != 4 {
			t.Errorf("the next call: %v, %v", b, err)
		}
	})
}

// A request whose peer does not read is stuck in the middle of the caller's payload.
func TestACallGivenUpInTheMiddleOfItsRequestOwnsItsMemoryAgain(t *testing.T) {
	release := make(chan struct{})
	h := &handler{buffer: func(r *Request, n int) ([]byte, error) {
		<-release // the server reads no further
		return make([]byte, n), nil
	}}
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		n := faultnet.New(1)
		ln, _ := n.Host("s").Listen("s:7000")
		serve(t, ln, h, Config{})
		c := dialer(t, n, Config{Connections: 1})
		b := make([]byte, 8<<20)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		go func() { _, err := c.Call(ctx, &wire.Push{}, &wire.Ack{}, nil, b); done <- err }()
		synctest.Wait()
		// Another one, of the same connection, waits for its turn and is given up at once.
		ctx2, cancel2 := context.WithTimeout(t.Context(), time.Second)
		defer cancel2()
		start := time.Now()
		if _, err := c.Call(ctx2, &wire.Push{}, &wire.Ack{}, nil, b); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("the second: %v after %v", err, time.Since(start))
		}
		start = time.Now()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || time.Since(start) > time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		for i := range b {
			b[i] = 1 // the race detector sees a writer that is still at it
		}
		close(release)
		synctest.Wait()
		if got := h.dropped.Load(); got != 1 {
			t.Errorf("Drop was called %d times for the cut-off payload, want once", got)
		}
		if _, err := c.Call(t.Context(), &wire.Push{}, &wire.Ack{}, nil, b); err != nil {
			t.Errorf("the next call: %v", err)
		}
	})
}

// A receiver that stops for ten seconds, in the middle of a frame, loses no connection and no call.
func TestAReceiverThatStopsForTenSecondsLosesNothing(t *testing.T) {
	for _, secure := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := faultnet.New(1)
			ln, err := n.Host("s").Listen("s:7000")
			if err != nil {
				t.Fatal(err)
			}
			server, client := Config{}, Config{Connections: 1}
			if secure {
				server, client = secured(t, server, client)
			}
			want := pattern(3, 8<<20)
			stopped := false
			serve(t, ln, &handler{buffer: func(_ *Request, n int) ([]byte, error) {
				if !stopped {
					stopped = true
					time.Sleep(10 * time.Second) // the connection is not read meanwhile
				}
				return make([]byte, n), nil
			}, serve: func(_ context.Context, r *Request) (Response, error) {
				if !bytes.Equal(r.Payload, want) {
					t.Error("a payload came out changed")
				}
				return Response{Message: &wire.Ack{}}, nil
			}}, server)
			var dials atomic.Int32
			client.Network = networkFunc(func(ctx context.Context, addr string) (net.Conn, error) {
				dials.Add(1)
				return n.Host("c").Dial(ctx, addr)
			})
			c := NewClient("s:7000", client)
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			start := time.Now()
			var calls sync.WaitGroup
			for range 3 {
				calls.Go(func() {
					if _, err := c.Call(ctx, &wire.Push{}, &wire.Ack{}, nil, want); err != nil {
						t.Errorf("TLS %t: %v", secure, err)
					}
				})
			}
			calls.Wait()
			if took := time.Since(start); took < 10*time.Second || took > 12*time.Second || dials.Load() != 1 {
				t.Errorf("TLS %t: took %v over %d connections, want 10 s over one", secure, took, dials.Load())
			}
		})
	}
}

// A peer that vanished silently costs one deadline, not all of them.
func TestASilentConnectionIsLeftAfterADeadline(t *testing.T) {
	bubble(t, new(handler), Config{}, func(t *testing.T, n *faultnet.Network) {
		c := dialer(t, n, Config{Connections: 1})
		call := func(d time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			_, err := c.Call(ctx, &wire.Heartbeat{}, &wire.Ack{}, nil)
			return err
		}
		if err := call(time.Second); err != nil {
			t.Fatal(err)
		}
		n.Drop("s", "c")
		if err := call(time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("half open: %v", err)
		}
		start := time.Now()
		if err := call(20 * time.Second); !errors.Is(err, ErrConnection) || time.Since(start) != 5*time.Second {
			t.Errorf("then a dial times out: %v after %v, want ErrConnection after 5s", err, time.Since(start))
		}
		n.Heal()
		if err := call(time.Second); err != nil {
			t.Errorf("healed: %v", err)
		}
	})
}

func TestACutConnectionIsErrConnectionForEveryCallOnIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, open := waiting()
		defer close(open)
		n := faultnet.New(1)
		ln, _ := n.Host("s").Listen("s:7000")
		serve(t, ln, h, Config{})
		c := dialer(t, n, Config{})
		errs := make(chan error, 8)
		for range 8 {
			go func() {
				_, err := c.Call(t.Context(), &wire.Barrier{}, &wire.Value{}, make([]byte, 4))
				errs <- err
			}()
		}
		synctest.Wait()
		n.Cut("c", "s")
		for range 8 {
			if err := <-errs; !errors.Is(err, ErrConnection) || !strings.Contains(err.Error(), "transport: barrier to s:7000: connection lost: ") {
				t.Errorf("got %v", err)
			}
		}
		if _, err := c.Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
			t.Errorf("the next call: %v", err)
		}
	})
}

func TestNobodyListeningIsErrConnection(t *testing.T) {
	n := faultnet.New(1)
	c := dialer(t, n, Config{})
	if _, err := c.Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); !errors.Is(err, ErrConnection) {
		t.Errorf("got %v", err)
	}
}

// A peer that stops in the middle of a request must not hold the memory for ever.
func TestARequestThatStopsHalfWayIsDropped(t *testing.T) {
	h := new(handler)
	bubble(t, h, Config{}, func(t *testing.T, n *faultnet.Network) {
		c := dialer(t, n, Config{Connections: 1})
		if _, err := c.Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
			t.Fatal(err)
		}
		n.Delay("c", "s", 100*time.Second, 100*time.Second)
		go c.Call(t.Context(), &wire.Push{}, &wire.Ack{}, nil, make([]byte, 1<<20))
		time.Sleep(150 * time.Second) // a first piece is there
		n.Drop("c", "s")
		time.Sleep(150 * time.Second)
		synctest.Wait()
		if got := h.dropped.Load(); got != 1 {
			t.Errorf("Drop was called %d times, want once", got)
		}
	})
}

func TestPeersWithAnotherSecretAreTurnedAway(t *testing.T) {
	for _, c := range []struct{ name, server, client string }{
		{"both have one", "right", "wrong"}, {"only the server", "right", ""}, {"only the client", "", "wrong"},
	} {
		t.Run(c.name, func(t *testing.T) {
			called := false
			h := &handler{serve: func(context.Context, *Request) (Response, error) { called = true; return Response{}, nil }}
			bubble(t, h, Config{Secret: []byte(c.server)}, func(t *testing.T, n *faultnet.Network) {
				_, err := dialer(t, n, Config{Secret: []byte(c.client)}).Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil)
				if !errors.Is(err, ErrAuth) || called {
					t.Errorf("got %v, handler called: %v", err, called)
				}
				if _, err := dialer(t, n, Config{Secret: []byte(c.server)}).Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); errors.Is(err, ErrAuth) {
					t.Errorf("the right secret: %v", err)
				}
			})
		})
	}
}

// ourHello is how a hello begins.
const ourHello = "PRGN" + string(rune(Version)) + "\x00\x00\x00"

// A false server learns nothing from a client and gets no request of it.
func TestAClientTurnsAwayAFalseServer(t *testing.T) {
	for _, c := range []struct {
		name string
		says []byte
		want error
	}{
		{"garbage", bytes.Repeat([]byte("HTTP/1.1 400 Bad Request\r\n"), 5), ErrAuth},
		{"a wrong proof", append([]byte(ourHello), make([]byte, 64)...), ErrAuth},
		{"silence", nil, ErrConnection},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := faultnet.New(1)
				ln, _ := n.Host("s").Listen("s:7000")
				defer ln.Close()
				got := make(chan []byte, 1)
				go func() {
					nc, err := ln.Accept()
					if err != nil {
						return
					}
					nc.Write(c.says)
					b, _ := io.ReadAll(nc)
					got <- b
				}()
				start := time.Now()
				_, err := dialer(t, n, Config{Secret: []byte("s")}).Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil)
				if !errors.Is(err, c.want) || time.Since(start) > 5*time.Second {
					t.Errorf("got %v after %v, want %v", err, time.Since(start), c.want)
				}
				if b := <-got; len(b) != 40 {
					t.Errorf("the client sent %d bytes, want its hello of 40", len(b))
				}
			})
		})
	}
}

// Programs of two versions of Paragon refuse each other at once, and both name the two versions and
// what to do.
func TestPeersOfAnotherVersionAreRefusedByName(t *testing.T) {
	const other = Version + 7
	hello := append([]byte{'P', 'R', 'G', 'N', other, 0xf0, 1, 1}, make([]byte, 32)...) // flags that this version does not know
	want := fmt.Sprintf("it speaks version %d of Paragon's protocol and this process version %d: build launch and all programs of the job from the same version of Paragon", other, Version)
	t.Run("server", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := faultnet.New(1)
			ln, _ := n.Host("s").Listen("s:7000")
			defer ln.Close()
			go func() {
				nc, err := ln.Accept()
				if err != nil {
					return
				}
				defer nc.Close()
				nc.Write(hello) // and no proof as this version has it
				io.ReadAll(nc)
			}()
			start := time.Now()
			_, err := dialer(t, n, Config{}).Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil)
			if !errors.Is(err, ErrVersion) || errors.Is(err, ErrConnection) || !strings.Contains(err.Error(), want) || time.Since(start) > time.Second {
				t.Errorf("got %v after %v, want %q at once", err, time.Since(start), want)
			}
		})
	})
	t.Run("client", func(t *testing.T) {
		h := &handler{serve: func(context.Context, *Request) (Response, error) { t.Error("a request came"); return Response{}, nil }}
		bubble(t, h, Config{}, func(t *testing.T, n *faultnet.Network) {
			nc, err := n.Host("c").Dial(t.Context(), "s:7000")
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			nc.Write(hello)
			start := time.Now()
			answer, _ := io.ReadAll(nc)
			if len(answer) < 5 || string(answer[:4]) != "PRGN" || answer[4] != Version || time.Since(start) > time.Second {
				t.Errorf("the client got %q after %v, want a hello with version %d at once", answer, time.Since(start), Version)
			}
		})
	})
}

// Strangers get five seconds, a goroutine and a little memory each, and no more than a few hundred
// at once.
func TestStrangersAreClosedInSecondsAndCostLittle(t *testing.T) {
	for _, c := range []struct {
		name string
		talk func(nc net.Conn)
	}{
		{"silence", func(nc net.Conn) {}},
		{"garbage", func(nc net.Conn) { nc.Write(bytes.Repeat([]byte{0xff}, 64<<10)) }},
		{"slow", func(nc net.Conn) {
			for _, b := range []byte(ourHello + " very slowly") {
				if _, err := nc.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}},
		{"half a handshake", func(nc net.Conn) { nc.Write(append([]byte(ourHello), make([]byte, 32)...)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, new(handler), Config{Secret: []byte("s")}, func(t *testing.T, n *faultnet.Network) {
				var wg sync.WaitGroup
				start := time.Now()
				for range 100 {
					nc, err := n.Host("evil").Dial(t.Context(), "s:7000")
					if err != nil {
						t.Fatal(err)
					}
					wg.Go(func() { c.talk(nc) })
					wg.Go(func() {
						io.Copy(io.Discard, nc) // until the server closes it
						nc.Close()
					})
				}
				synctest.Wait()
				// Ours gets through meanwhile.
				if _, err := dialer(t, n, Config{Secret: []byte("s")}).Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
					t.Errorf("a peer of ours among them: %v", err)
				}
				wg.Wait()
				if d := time.Since(start); d > 6*time.Second {
					t.Errorf("the last one was closed after %v, want 5s", d)
				}
			})
		})
	}
}

// Whoever makes thousands of connections takes the places of his own: the longest there goes.
// Others keep theirs.
func TestTooManyStrangersTakeEachOthersPlaces(t *testing.T) {
	bubble(t, new(handler), Config{Secret: []byte("s")}, func(t *testing.T, n *faultnet.Network) {
		open := func(host string, count int) (all []net.Conn) {
			for range count {
				nc, err := n.Host(host).Dial(t.Context(), "s:7000")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { nc.Close() })
				all = append(all, nc)
				synctest.Wait()
			}
			return all
		}
		closed := func(all []net.Conn) (first, count int) {
			first = -1
			for i, nc := range all {
				nc.SetReadDeadline(time.Now().Add(time.Microsecond))
				if _, err := nc.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
					if count++; first < 0 {
						first = i
					}
				}
			}
			return first, count
		}
		slow := open("slow", 3) // of ours, say, behind a bad line
		evil := open("evil", 300)
		if first, count := closed(evil); first != 0 || count != 300-256 {
			t.Errorf("of 300 from one address %d were closed, from %d on, want the first 44", count, first)
		}
		more := open("evil2", 300)
		if _, count := closed(more); count < 300-256 || count > 300-253 {
			t.Errorf("of 300 from another address %d were closed, want 44 to 47, those beyond its share", count)
		}
		if _, count := closed(slow); count != 0 {
			t.Errorf("%d of 3 from a quiet address were closed, want none", count)
		}
		if _, err := dialer(t, n, Config{Secret: []byte("s")}).Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
			t.Errorf("a peer of ours among them: %v", err)
		}
	})
}

func TestAWrongProofIsToldAndClosed(t *testing.T) {
	bubble(t, new(handler), Config{Secret: []byte("s")}, func(t *testing.T, n *faultnet.Network) {
		nc, err := n.Host("evil").Dial(t.Context(), "s:7000")
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.Write(append([]byte(ourHello), make([]byte, 32)...))
		if _, err := io.ReadFull(nc, make([]byte, 72)); err != nil {
			t.Fatal(err)
		}
		nc.Write(make([]byte, 32))
		if b, err := io.ReadAll(nc); err != nil || !bytes.Equal(b, []byte{0}) {
			t.Errorf("got %v, %v, want one zero and the end", b, err)
		}
	})
}

// Once proved, a peer that breaks the format loses its connection, and only that.
func TestABrokenFrameEndsItsConnectionOnly(t *testing.T) {
	good := make([]byte, wire.HeaderSize)
	wire.Header{Kind: wire.KindPush, Head: 4, Payload: 4}.Put(good)
	for _, c := range []struct {
		name string
		edit func(b []byte)
	}{
		{"version", func(b []byte) { b[0] = 7 }},
		{"zeros", func(b []byte) { b[2] = 7 }},
		{"head beyond the limit", func(b []byte) { b[7] = 7 }},
		{"payload beyond the limit", func(b []byte) { b[11] = 0xff }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, new(handler), Config{}, func(t *testing.T, n *faultnet.Network) {
				nc := raw(t, n)
				defer nc.Close()
				b := bytes.Clone(good)
				c.edit(b)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				nc.Write(b)
				nc.SetReadDeadline(time.Now().Add(time.Minute))
				if k, err := nc.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Errorf("read %d, %v, want the connection closed", k, err)
				}
				runtime.ReadMemStats(&after)
				if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
					t.Errorf("a header took %d bytes of memory", got)
				}
				if _, err := dialer(t, n, Config{}).Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
					t.Errorf("another connection: %v", err)
				}
			})
		})
	}
}

// raw is a connection to s:7000 that has proved the empty secret through a client's own handshake.
func raw(t *testing.T, n *faultnet.Network) net.Conn {
	t.Helper()
	var nc net.Conn
	c := NewClient("s:7000", Config{Network: networkFunc(func(ctx context.Context, addr string) (net.Conn, error) {
		inner, err := n.Host("c").Dial(ctx, addr)
		nc = inner
		return keepOpen{inner}, err
	})})
	if _, err := c.Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
		t.Fatal(err)
	}
	nc.SetReadDeadline(time.Now()) // ends the client's reader
	c.Close()
	nc.SetDeadline(time.Time{})
	return nc
}

type networkFunc func(context.Context, string) (net.Conn, error)

func (networkFunc) Listen(string) (net.Listener, error)                       { return nil, errors.ErrUnsupported }
func (f networkFunc) Dial(ctx context.Context, addr string) (net.Conn, error) { return f(ctx, addr) }

type keepOpen struct{ net.Conn }

func (keepOpen) Close() error { return nil }

// A large frame has a time to pass; it must not count for what is written on the connection later.
func TestATimeForOneFrameDoesNotEndTheNext(t *testing.T) {
	bubble(t, new(handler), Config{}, func(t *testing.T, n *faultnet.Network) {
		c := dialer(t, n, Config{Connections: 1})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 3 {
			if _, err := c.Call(ctx, &wire.Push{}, &wire.Ack{}, nil, pattern(0, 1<<20)); err != nil {
				t.Fatalf("large: %v", err)
			}
			time.Sleep(10 * time.Minute)
			if _, err := c.Call(ctx, &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
				t.Fatalf("small: %v", err)
			}
			time.Sleep(10 * time.Minute)
			if _, err := c.Call(context.Background(), &wire.Push{}, &wire.Ack{}, nil, pattern(0, 1<<20)); err != nil {
				t.Fatalf("large, without an end: %v", err)
			}
		}
	})
}
