package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// started is Call by means of Start, where that takes the request: a context that ends gives it up.
func started(ctx context.Context, c *Client, request, answer wire.Message, dst []byte, payload ...[]byte) (b []byte, err error, ok bool) {
	done := make(chan struct{}, 1)
	p := &Started{Done: func() { done <- struct{}{} }}
	if !c.Start(p, request, answer, dst, payload...) {
		return nil, nil, false
	}
	select {
	case <-done:
	case <-ctx.Done():
		p.GiveUp(ctx.Err())
		select {
		case <-done:
		case <-time.After(100 * time.Millisecond):
			p.Cut()
			<-done
		}
	}
	b, err = p.Result()
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return b, err, true
}

// prompt is a Handler that answers Pulls of an even Seq, and refuses every eighth, without a
// goroutine.
type prompt struct {
	handler
	once, later atomic.Int32
}

func (h *prompt) Prompt(r *Request) (Response, bool, error) {
	var p wire.Pull
	if r.Kind != wire.KindPull || wire.DecodeHead(&p, r.Head) != nil {
		return Response{}, false, nil
	}
	switch {
	case p.Seq == 98:
		panic("ninety-eight")
	case p.Seq%8 == 0:
		return Response{}, true, Refuse(wire.CodeBusy, 5, "no %d", p.Seq)
	case p.Seq%2 == 0:
		h.once.Add(1)
		resp, err := h.handler.Serve(context.Background(), r)
		return resp, true, err
	}
	r.Value = p.Seq
	return Response{}, false, nil
}

func (h *prompt) Serve(ctx context.Context, r *Request) (Response, error) {
	if r.Kind == wire.KindPull {
		if _, ok := r.Value.(uint64); !ok {
			return Response{}, fmt.Errorf("got the value %v, want the one that Prompt has set", r.Value)
		}
		h.later.Add(1)
	}
	return h.handler.Serve(ctx, r)
}

// Small requests that were started, many at once, each get their own answer, whether the server's
// reader gives it or not.
func TestStartedRequestsGetEachItsOwnAnswer(t *testing.T) {
	for _, l := range links {
		t.Run(l.name, func(t *testing.T) {
			ln, scfg, ccfg := l.open(t)
			h := new(prompt)
			serve(t, ln, h, scfg)
			ccfg.Connections = 2
			c := client(t, ln.Addr().String(), ccfg)
			if _, _, ok := started(t.Context(), c, &wire.Heartbeat{}, &wire.Ack{}, nil); ok {
				t.Error("a request was started with no connection")
			}
			for range 2 {
				if _, err := c.Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
					t.Fatal(err)
				}
			}
			var wg sync.WaitGroup
			for g := range uint64(16) {
				wg.Go(func() {
					dst, payload := make([]byte, 100_000), pattern(g, 3000)
					for i := range uint64(20) {
						seq, size := 100+i*16+g, 1+int(i*997)%9000
						if i%10 == 9 {
							size = 100_000
						}
						var v wire.Value
						b, err, ok := started(t.Context(), c, &wire.Pull{Origin: wire.Origin{Seq: seq}, Round: uint64(size)}, &v, dst, payload)
						var refusal *Refusal
						switch {
						case !ok:
							t.Errorf("request %d was not started", seq)
						case seq%8 == 0:
							if !errors.As(err, &refusal) || refusal.Text != fmt.Sprintf("no %d", seq) || refusal.Addr == "" {
								t.Errorf("request %d: got error %v, want its refusal", seq, err)
							}
						case err != nil || v.Round != seq || !bytes.Equal(b, pattern(seq, size)):
							t.Errorf("request %d: got %d bytes of %+v, %v; want %d bytes", seq, len(b), v, err, size)
						}
					}
				})
			}
			wg.Wait()
			if h.once.Load() == 0 || h.later.Load() == 0 {
				t.Errorf("answered at once: %d, later: %d; want both", h.once.Load(), h.later.Load())
			}
			_, err, ok := started(t.Context(), c, &wire.Pull{Origin: wire.Origin{Seq: 98}}, &wire.Value{}, nil)
			if !ok || err == nil || !strings.Contains(err.Error(), "ninety-eight") {
				t.Errorf("a panic while answering at once: got %v, %v", err, ok)
			}
			h.lent.wait() // every answer was released
		})
	}
}

// bubbleOfWaits is bubble with a Handler whose answers to Barrier wait until open is closed.
func bubbleOfWaits(t *testing.T, test func(t *testing.T, n *faultnet.Network, open chan struct{})) {
	synctest.Test(t, func(t *testing.T) {
		h, open := waiting()
		n := faultnet.New(1)
		ln, err := n.Host("s").Listen("s:7000")
		if err != nil {
			t.Fatal(err)
		}
		serve(t, ln, h, Config{})
		test(t, n, open)
	})
}

// What may have to wait is not started: large requests, and those beyond the limit of requests in
// flight.
func TestOnlyRequestsThatNeedNotWaitAreStarted(t *testing.T) {
	bubbleOfWaits(t, func(t *testing.T, n *faultnet.Network, open chan struct{}) {
		c := dialer(t, n, Config{Connections: 1, MaxInFlight: 2})
		if _, err := c.Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
			t.Fatal(err)
		}
		var list [2]Started
		var answers [2]wire.Value
		done := 0
		if c.Start(&list[0], &wire.Heartbeat{}, &wire.Ack{}, nil, make([]byte, 100_000)) {
			t.Error("a large request was started")
		}
		for i := range list {
			list[i].Done = func() { done++ }
			if !c.Start(&list[i], &wire.Barrier{}, &answers[i], make([]byte, 4)) {
				t.Errorf("request %d was not started", i)
			}
		}
		if c.Start(new(Started), &wire.Barrier{}, &wire.Value{}, nil) {
			t.Error("a third request was started, want two in flight")
		}
		close(open)
		synctest.Wait()
		if done != 2 {
			t.Errorf("requests over: got %d, want 2", done)
		}
		for i := range list {
			if b, err := list[i].Result(); err != nil || len(b) != 4 || b[0] != 9 {
				t.Errorf("request %d: got %v, %v", i, b, err)
			}
		}
		if _, err, ok := started(t.Context(), c, &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil || !ok {
			t.Errorf("a request when others are over: got %v, started %v", err, ok)
		}
	})
}

// The end of the connection, or of the Client, is the end of what was started on it, with the error
// that Call would return.
func TestStartedRequestsEndWithTheirConnection(t *testing.T) {
	for name, want := range map[string]error{"cut": ErrConnection, "closed": ErrClosed} {
		t.Run(name, func(t *testing.T) {
			bubbleOfWaits(t, func(t *testing.T, n *faultnet.Network, open chan struct{}) {
				defer close(open)
				c := dialer(t, n, Config{Connections: 1})
				if _, err := c.Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
					t.Fatal(err)
				}
				over := false
				p := &Started{Done: func() { over = true }}
				if !c.Start(p, &wire.Barrier{}, &wire.Value{}, nil) {
					t.Fatal("the request was not started")
				}
				synctest.Wait()
				if over {
					t.Error("the request is over before its connection")
				}
				if name == "cut" {
					n.Cut("c", "s")
				} else {
					c.Close()
				}
				synctest.Wait()
				if !over {
					t.Fatal("the request is not over")
				}
				if _, err := p.Result(); !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
				if c.Start(p, &wire.Barrier{}, &wire.Value{}, nil) {
					t.Error("a request was started on a connection that is gone")
				}
			})
		})
	}
}

// A request that was given up is over at once; one whose answer is just being read once its
// connection was cut.
func TestAStartedRequestGivenUpOwnsItsMemoryAgain(t *testing.T) {
	bubble(t, new(handler), Config{}, func(t *testing.T, n *faultnet.Network) {
		c := dialer(t, n, Config{Connections: 1})
		if _, err := c.Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
			t.Fatal(err)
		}
		for _, after := range []time.Duration{time.Second, 25 * time.Second} {
			n.Delay("s", "c", 10*time.Second, 10*time.Second) // the answer comes in pieces, 10 s apart
			ctx, cancel := context.WithCancel(t.Context())
			dst, size := make([]byte, 8<<20), 8<<20
			time.AfterFunc(after, cancel)
			begun := time.Now()
			_, err, ok := started(ctx, c, &wire.Pull{Round: uint64(size)}, &wire.Value{}, dst)
			if took := time.Since(begun) - after; !ok || !errors.Is(err, context.Canceled) || took < 0 || took > 200*time.Millisecond {
				t.Errorf("given up after %v: got %v, started %v, %v later", after, err, ok, took)
			}
			clear(dst) // the race detector sees a reader that is still at it
			n.Heal()
			synctest.Wait()
			if i := bytes.IndexFunc(dst, func(r rune) bool { return r != 0 }); i >= 0 {
				t.Errorf("given up after %v: byte %d of dst was written later", after, i)
			}
			if b, err := c.Call(t.Context(), &wire.Pull{Round: 4}, &wire.Value{}, dst); err != nil || len(b) != 4 {
				t.Errorf("given up after %v: the next call: %v, %v", after, b, err)
			}
		}
	})
}

// Requests that are started where they can be, and called where not, soon have all connections, and
// are started from then on.
func TestStartUsesEveryConnection(t *testing.T) {
	for _, connections := range []int{1, 2, 3, 4} {
		bubble(t, new(handler), Config{}, func(t *testing.T, n *faultnet.Network) {
			c := dialer(t, n, Config{Connections: connections})
			called := 0
			for range 20 {
				if _, err, ok := started(t.Context(), c, &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
					t.Fatal(err)
				} else if ok {
					continue
				}
				called++
				if _, err := c.Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
					t.Fatal(err)
				}
			}
			if called != connections {
				t.Errorf("%d connections: %d requests of 20 were not started, want one for each", connections, called)
			}
		})
	}
}

// A hookedPull runs a hook while it is being written: its kind is asked for once when it is
// started, and then by the writer.
type hookedPull struct {
	wire.Pull
	asked int
	hook  func()
}

func (m *hookedPull) Kind() wire.Kind {
	if m.asked++; m.asked == 2 {
		m.hook()
	}
	return m.Pull.Kind()
}

// A toldConn tells that it is closed, once.
type toldConn struct {
	net.Conn
	closing chan struct{}
}

func (c toldConn) Close() error {
	close(c.closing)
	return c.Conn.Close()
}

// A connection that breaks while a request is still being read from the caller's memory does not
// end it before that is over: the caller would use the memory anew.
func TestAStartedRequestEndsAfterItWasRead(t *testing.T) {
	ln, scfg, _ := over(TCP)(t)
	serve(t, ln, new(handler), scfg)
	closing := make(chan struct{})
	c := client(t, ln.Addr().String(), Config{Connections: 1, Network: networkFunc(func(ctx context.Context, addr string) (net.Conn, error) {
		nc, err := TCP.Dial(ctx, addr)
		return toldConn{nc, closing}, err
	})})
	if _, err := c.Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
		t.Fatal(err)
	}
	var reading atomic.Bool
	done := make(chan bool, 1)
	p := &Started{Done: func() { done <- reading.Load() }}
	closed := make(chan struct{})
	m := &hookedPull{hook: func() {
		reading.Store(true)
		defer reading.Store(false)
		go func() {
			defer close(closed)
			c.Close()
		}()
		<-closing // the connection's end has taken the request before an answer can come
		for range 20_000 {
			runtime.Gosched()
		}
	}}
	if !c.Start(p, m, &wire.Value{}, nil) {
		t.Fatal("the request was not started")
	}
	if <-done {
		t.Error("the request ended while it was being read")
	}
	if _, err := p.Result(); !errors.Is(err, ErrClosed) {
		t.Errorf("the request: got error %v, want %v", err, ErrClosed)
	}
	<-closed
}

// seen is a Handler that answers everything at once, and counts what it was asked to.
type seen struct {
	handler
	mu    sync.Mutex
	kinds map[wire.Kind]int
}

func (h *seen) Prompt(r *Request) (Response, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kinds[r.Kind]++
	return Response{Message: &wire.PushedMany{}, Payload: [][]byte{r.Payload}}, true, nil
}

// A message with many small pushes is answered by the reading goroutine, however large it and its
// answer are; another large request is not.
func TestPushesOfManyKeysAreTriedAtOnce(t *testing.T) {
	for _, l := range links {
		t.Run(l.name, func(t *testing.T) {
			ln, scfg, ccfg := l.open(t)
			h := &seen{kinds: map[wire.Kind]int{}}
			serve(t, ln, h, scfg)
			c := client(t, ln.Addr().String(), ccfg)
			want := pattern(7, 100_000)
			got, err := c.Call(t.Context(), &wire.PushMany{Pushes: make([]wire.SizedPush, 50)}, &wire.PushedMany{}, make([]byte, len(want)), want[:50_000], want[50_000:])
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("push many: got %d bytes, error %v, want the %d that were sent", len(got), err, len(want))
			}
			if _, err := c.Call(t.Context(), &wire.Push{}, &wire.Ack{}, nil, want); err != nil {
				t.Error(err)
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.kinds[wire.KindPushMany] != 1 || h.kinds[wire.KindPush] != 0 {
				t.Errorf("tried at once: got %v, want the push many alone", h.kinds)
			}
		})
	}
}
