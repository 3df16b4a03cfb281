package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/store/identity"
	. "github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
)

// handler is a Handler made of functions; the zero value answers a Pull with as many bytes as its
// Round says, and anything else with Ack.
type handler struct {
	serve   func(context.Context, *Request) (Response, error)
	buffer  func(*Request, int) ([]byte, error)
	dropped atomic.Int32
	lent    count // payloads of answers not yet released
}

// count is a WaitGroup that may be added to while it is waited for.
type count struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n comes to zero, if somebody waits
}

func (c *count) add(d int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n += d; c.n == 0 && c.zero != nil {
		close(c.zero)
		c.zero = nil
	}
}

func (c *count) wait() {
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return
	}
	if c.zero == nil {
		c.zero = make(chan struct{})
	}
	zero := c.zero
	c.mu.Unlock()
	<-zero
}

func (h *handler) Buffer(r *Request, n int) ([]byte, error) {
	if h.buffer != nil {
		return h.buffer(r, n)
	}
	return make([]byte, n), nil
}

func (h *handler) Drop(*Request) { h.dropped.Add(1) }

func (h *handler) Serve(ctx context.Context, r *Request) (Response, error) {
	if h.serve != nil {
		return h.serve(ctx, r)
	}
	if r.Kind != wire.KindPull {
		return Response{Message: &wire.Ack{Generation: 3}}, nil
	}
	var p wire.Pull
	if err := wire.DecodeHead(&p, r.Head); err != nil {
		return Response{}, err
	}
	if p.Round > 16<<20 {
		return Response{}, Refuse(wire.CodeSize, 0, "%d bytes are too many", p.Round)
	}
	b := pattern(p.Seq, int(p.Round))
	h.lent.add(1)
	return Response{
		Message: &wire.Value{N: p.Round, Round: p.Seq},
		Payload: [][]byte{b[:len(b)/3], nil, b[len(b)/3:]},
		Release: func() { clear(b); h.lent.add(-1) },
	}, nil
}

// pattern is a payload that belongs to a number.
//
//go:norace
func pattern(seq uint64, n int) []byte {
	b := make([]byte, n) // nobody else has it yet
	for i := range b {
		b[i] = byte(uint64(i)*7 + uint64(i>>8)*13 + seq*31)
	}
	return b
}

// link is a network to test over: a listener and a config for each side.
type link struct {
	name string
	open func(t *testing.T) (ln net.Listener, server, client Config)
}

// over is a link of the system's.
func over(n Network) func(t *testing.T) (net.Listener, Config, Config) {
	return func(t *testing.T) (net.Listener, Config, Config) {
		ln, err := n.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln, Config{Network: n}, Config{Network: n}
	}
}

var links = []link{
	{"tcp", over(TCP)},
	{"unix", over(Unix)},
	{"auto", over(Auto)},
	{"tls", func(t *testing.T) (net.Listener, Config, Config) {
		ln, server, client := over(TCP)(t)
		server, client = secured(t, server, client)
		return ln, server, client
	}},
	{"pipes", func(t *testing.T) (net.Listener, Config, Config) {
		n := faultnet.New(1)
		ln, err := n.Host("s").Listen(":0")
		if err != nil {
			t.Fatal(err)
		}
		return ln, Config{Network: n.Host("s")}, Config{Network: n.Host("c")}
	}},
}

// secured gives a server and a worker, its client, identities of one job.
func secured(t testing.TB, server, client Config) (Config, Config) {
	t.Helper()
	a, err := identity.NewAuthority("job")
	if err != nil {
		t.Fatal(err)
	}
	server.Identity, client.Identity = issued(t, a, identity.Server), issued(t, a, identity.Worker)
	server.Peers, client.Peers = []string{identity.Worker}, []string{identity.Server}
	return server, client
}

func issued(t testing.TB, a *identity.Authority, role string) *Identity {
	t.Helper()
	id, err := a.Issue(role, role+" 0")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// serve starts a Server and stops it at the end of the test, when all of its goroutines must be
// gone.
func serve(t *testing.T, ln net.Listener, h Handler, cfg Config) *Server {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet()
	}
	s := NewServer(ln, h, cfg)
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s
}

func client(t *testing.T, addr string, cfg Config) *Client {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet()
	}
	c := NewClient(addr, cfg)
	t.Cleanup(func() { c.Close() })
	return c
}

// eachLink runs a test over every network with a Server of h and a Client to it.
func eachLink(t *testing.T, h func() *handler, test func(t *testing.T, c *Client, h *handler)) {
	for _, l := range links {
		t.Run(l.name, func(t *testing.T) {
			ln, scfg, ccfg := l.open(t)
			hh := h()
			serve(t, ln, hh, scfg)
			test(t, client(t, ln.Addr().String(), ccfg), hh)
		})
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestPayloadsOfEverySizeComeAndGoWhole(t *testing.T) {
	var got sync.Map
	eachLink(t, func() *handler {
		h := new(handler)
		h.serve = func(ctx context.Context, r *Request) (Response, error) {
			if r.Kind == wire.KindPush {
				var p wire.Push
				if err := wire.DecodeHead(&p, r.Head); err != nil {
					return Response{}, err
				}
				got.Store(p.Seq, bytes.Clone(r.Payload))
				return Response{Message: &wire.Ack{Generation: p.Seq}}, nil
			}
			return (&handler{}).Serve(ctx, r)
		}
		return h
	}, func(t *testing.T, c *Client, h *handler) {
		ctx := within(t, 30*time.Second)
		for i, n := range []int{0, 1, 15, 16, 1000, 16<<10 - 1, 16 << 10, 16<<10 + 1, 64 << 10, 1<<20 + 3, 5 << 20} {
			seq := uint64(i)
			b := pattern(seq, n)
			var ack wire.Ack
			if _, err := c.Call(ctx, &wire.Push{Origin: wire.Origin{Seq: seq}}, &ack, nil, b[:n/2], nil, b[n/2:]); err != nil || ack.Generation != seq {
				t.Fatalf("push %d bytes: %+v, %v", n, ack, err)
			}
			if v, _ := got.Load(seq); !bytes.Equal(v.([]byte), b) {
				t.Fatalf("push %d bytes: others arrived", n)
			}
			var v wire.Value
			dst := make([]byte, n+5)
			back, err := c.Call(ctx, &wire.Pull{Origin: wire.Origin{Seq: seq}, Round: uint64(n)}, &v, dst)
			if err != nil || v.Round != seq || !bytes.Equal(back, b) {
				t.Fatalf("pull %d bytes: %+v, %d bytes, %v", n, v, len(back), err)
			}
			if n > 0 && &back[0] != &dst[0] {
				t.Fatalf("pull %d bytes: the payload is not in dst", n)
			}
		}
	})
}

func TestManyCallsAtOnceGetEachItsOwnAnswer(t *testing.T) {
	eachLink(t, func() *handler { return new(handler) }, func(t *testing.T, c *Client, h *handler) {
		ctx := within(t, 60*time.Second)
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(7, uint64(g)))
				dst := make([]byte, 300<<10)
				for i := range 25 {
					n := 1 << rng.IntN(18)
					n += rng.IntN(n)
					seq := uint64(g)<<32 | uint64(i)
					var v wire.Value
					b, err := c.Call(ctx, &wire.Pull{Origin: wire.Origin{Seq: seq}, Round: uint64(n)}, &v, dst)
					if err != nil || v.Round != seq || !bytes.Equal(b, pattern(seq, n)) {
						t.Errorf("pull %d of %d bytes: %+v, %d bytes, %v", seq, n, v, len(b), err)
						return
					}
				}
			})
		}
		wg.Wait()
		h.lent.wait() // every payload was released, once
	})
}

// Requests far larger than any buffer are answered by the server as early as can be. The answer
// must find its call.
func TestAnAnswerNeverComesBeforeItsRequestIsKnown(t *testing.T) {
	eachLink(t, func() *handler {
		return &handler{buffer: func(r *Request, n int) ([]byte, error) { return nil, Refuse(wire.CodeBusy, 0, "no room") }}
	}, func(t *testing.T, c *Client, h *handler) {
		ctx := within(t, 30*time.Second)
		b := make([]byte, 1<<20)
		for range 60 {
			var r *Refusal
			if _, err := c.Call(ctx, &wire.Push{}, &wire.Ack{}, nil, b); !errors.As(err, &r) || r.Code != wire.CodeBusy {
				t.Fatalf("got %v, want the refusal", err)
			}
		}
	})
}

func TestThousandsMayWaitForTheirAnswers(t *testing.T) {
	const waiting = 2000
	open := make(chan struct{})
	var arrived atomic.Int32
	all := make(chan struct{})
	eachLink(t, func() *handler {
		open, all = make(chan struct{}), make(chan struct{})
		arrived.Store(0)
		return &handler{serve: func(ctx context.Context, r *Request) (Response, error) {
			if r.Kind == wire.KindHeartbeat {
				return Response{Message: &wire.Ack{}}, nil
			}
			if arrived.Add(1) == waiting {
				close(all)
			}
			select {
			case <-open:
			case <-ctx.Done():
			}
			return Response{Message: &wire.Ack{}}, nil
		}}
	}, func(t *testing.T, c *Client, h *handler) {
		ctx := within(t, 60*time.Second)
		var wg sync.WaitGroup
		for range waiting {
			wg.Go(func() {
				if _, err := c.Call(ctx, &wire.Barrier{}, &wire.Ack{}, nil); err != nil {
					t.Error(err)
				}
			})
		}
		<-all
		if _, err := c.Call(ctx, &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
			t.Errorf("a heartbeat among them: %v", err)
		}
		close(open)
		wg.Wait()
	})
}

func TestMoreThanMaxInFlightWaitTheirTurn(t *testing.T) {
	for _, l := range links {
		t.Run(l.name, func(t *testing.T) {
			ln, scfg, ccfg := l.open(t)
			scfg.MaxInFlight, ccfg.MaxInFlight, ccfg.Connections = 2, 8, 1
			var now, most atomic.Int32
			serve(t, ln, &handler{serve: func(context.Context, *Request) (Response, error) {
				n := now.Add(1)
				defer now.Add(-1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				return Response{Message: &wire.Ack{}}, nil
			}}, scfg)
			c := client(t, ln.Addr().String(), ccfg)
			ctx := within(t, 30*time.Second)
			var wg sync.WaitGroup
			for range 200 {
				wg.Go(func() {
					if _, err := c.Call(ctx, &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if most.Load() > 2 {
				t.Errorf("%d requests at once, want at most 2", most.Load())
			}
		})
	}
}

func TestWhatTheHandlerSaysNoToIsARefusal(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		code wire.Code
		gen  uint64
		text string
	}{
		{"refusal", fmt.Errorf("wrapped: %w", Refuse(wire.CodeStaleGeneration, 6, "stale generation: yours %d, ours 6", 5)), wire.CodeStaleGeneration, 6, "stale generation: yours 5, ours 6"},
		{"error", errors.New("disk gone"), wire.CodeInternal, 0, "disk gone"},
		{"malformed", wire.DecodeHead(new(wire.Push), nil), wire.CodeMalformed, 0, "wire: push head: malformed: got 0 bytes, want at least 120"},
		{"not text", errors.New("a\xffb"), wire.CodeInternal, 0, "a?b"},
		{"long", errors.New(strings.Repeat("x", 1<<20)), wire.CodeInternal, 0, strings.Repeat("x", wire.MaxString-1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachLink(t, func() *handler {
				return &handler{serve: func(context.Context, *Request) (Response, error) { return Response{}, c.err }}
			}, func(t *testing.T, cl *Client, h *handler) {
				var r *Refusal
				_, err := cl.Call(within(t, 10*time.Second), &wire.Push{}, &wire.Ack{}, nil, make([]byte, 10))
				if !errors.As(err, &r) || r.Code != c.code || r.Generation != c.gen || r.Text != c.text || r.Addr != cl.Addr() {
					t.Errorf("got %#v", err)
				}
			})
		})
	}
}

func TestAHandlersPanicIsAnAnswer(t *testing.T) {
	for _, where := range []string{"serve", "buffer"} {
		t.Run(where, func(t *testing.T) {
			eachLink(t, func() *handler {
				h := new(handler)
				if where == "serve" {
					h.serve = func(context.Context, *Request) (Response, error) { panic("boom") }
				} else {
					h.buffer = func(*Request, int) ([]byte, error) { panic("boom") }
				}
				return h
			}, func(t *testing.T, c *Client, h *handler) {
				for range 3 {
					var r *Refusal
					_, err := c.Call(within(t, 10*time.Second), &wire.Push{}, &wire.Ack{}, nil, make([]byte, 100<<10))
					if !errors.As(err, &r) || r.Code != wire.CodeInternal || !strings.Contains(r.Text, "panic while serving a push: boom") {
						t.Errorf("got %v", err)
					}
				}
			})
		})
	}
}

func TestAnswersThatDoNotFitAreErrorsAndTheConnectionStays(t *testing.T) {
	eachLink(t, func() *handler { return new(handler) }, func(t *testing.T, c *Client, h *handler) {
		ctx := within(t, 10*time.Second)
		_, err := c.Call(ctx, &wire.Pull{Round: 100_000}, &wire.Value{}, make([]byte, 99_999))
		if err == nil || !strings.Contains(err.Error(), "got 100000 bytes of payload, want at most 99999") {
			t.Errorf("short dst: %v", err)
		}
		_, err = c.Call(ctx, &wire.Pull{Round: 10}, &wire.Ack{}, make([]byte, 10))
		if err == nil || !strings.Contains(err.Error(), "got value as the answer, want ack") {
			t.Errorf("another kind: %v", err)
		}
		if b, err := c.Call(ctx, &wire.Pull{Round: 10}, &wire.Value{}, make([]byte, 10)); err != nil || len(b) != 10 {
			t.Errorf("afterwards: %d bytes, %v", len(b), err)
		}
		if _, err := c.Call(ctx, &wire.Push{}, &wire.Ack{}, nil, make([]byte, wire.MaxPayload+1)); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("a payload beyond the limit: %v", err)
		}
		if _, err := c.Call(ctx, &wire.Signal{Name: strings.Repeat("x", wire.MaxHead)}, &wire.Ack{}, nil); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("a head beyond the limit: %v", err)
		}
	})
}

func TestAResponseBeyondTheLimitsIsARefusal(t *testing.T) {
	eachLink(t, func() *handler {
		return &handler{serve: func(context.Context, *Request) (Response, error) {
			return Response{Message: &wire.Signal{Name: strings.Repeat("x", wire.MaxHead)}}, nil
		}}
	}, func(t *testing.T, c *Client, h *handler) {
		var r *Refusal
		if _, err := c.Call(within(t, 10*time.Second), &wire.Push{}, &wire.Signal{}, nil); !errors.As(err, &r) || r.Code != wire.CodeInternal {
			t.Errorf("got %v", err)
		}
	})
}

func TestClosedServerEndsItsHandlersAndItsCallers(t *testing.T) {
	for _, l := range links {
		t.Run(l.name, func(t *testing.T) {
			ln, scfg, ccfg := l.open(t)
			var begun, ended atomic.Int32
			all := make(chan struct{})
			scfg.Logger = quiet()
			s := NewServer(ln, &handler{serve: func(ctx context.Context, r *Request) (Response, error) {
				if begun.Add(1) == 20 {
					close(all)
				}
				<-ctx.Done()
				ended.Add(1)
				return Response{}, ctx.Err()
			}}, scfg)
			served := make(chan error, 1)
			go func() { served <- s.Serve() }()
			c := client(t, ln.Addr().String(), ccfg)
			errs := make(chan error, 20)
			for range 20 {
				go func() {
					_, err := c.Call(t.Context(), &wire.Barrier{}, &wire.Ack{}, nil)
					errs <- err
				}()
			}
			<-all
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if ended.Load() != 20 {
				t.Errorf("Close returned while %d handlers ran", 20-ended.Load())
			}
			for range 20 {
				if err := <-errs; !errors.Is(err, ErrConnection) {
					t.Errorf("caller: %v, want ErrConnection", err)
				}
			}
			if err := <-served; err != nil {
				t.Errorf("Serve: %v", err)
			}
			if _, err := c.Call(within(t, 5*time.Second), &wire.Barrier{}, &wire.Ack{}, nil); !errors.Is(err, ErrConnection) {
				t.Errorf("call to a closed server: %v, want ErrConnection", err)
			}
			s.Close()
		})
	}
}

func TestClosedClientEndsItsCalls(t *testing.T) {
	eachLink(t, func() *handler {
		return &handler{serve: func(ctx context.Context, r *Request) (Response, error) {
			<-ctx.Done()
			return Response{}, ctx.Err()
		}}
	}, func(t *testing.T, c *Client, h *handler) {
		errs := make(chan error, 10)
		for range 10 {
			go func() {
				_, err := c.Call(t.Context(), &wire.Barrier{}, &wire.Ack{}, nil)
				errs <- err
			}()
		}
		c.Close()
		for range 10 {
			if err := <-errs; !errors.Is(err, ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		}
		if _, err := c.Call(t.Context(), &wire.Barrier{}, &wire.Ack{}, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v, want ErrClosed", err)
		}
		c.Close()
	})
}

func TestTheNextCallAfterALostServerDialsAgain(t *testing.T) {
	n := faultnet.New(1)
	addr := "s:7000"
	c := client(t, addr, Config{Network: n.Host("c"), Connections: 2})
	for range 3 {
		ln, err := n.Host("s").Listen(addr)
		if err != nil {
			t.Fatal(err)
		}
		s := NewServer(ln, new(handler), Config{Logger: quiet()})
		done := make(chan error, 1)
		go func() { done <- s.Serve() }()
		for range 5 {
			if _, err := c.Call(within(t, 5*time.Second), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil && !errors.Is(err, ErrConnection) {
				t.Errorf("got %v", err)
			}
		}
		if _, err := c.Call(within(t, 5*time.Second), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
			t.Errorf("with a new server: %v", err)
		}
		s.Close()
		<-done
	}
}

func TestAServerKnowsWhenItIsAlone(t *testing.T) {
	ln, err := TCP.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, ln, new(handler), Config{})
	if err := s.AwaitDisconnects(t.Context()); err != nil {
		t.Errorf("before anybody came: %v", err)
	}
	c := client(t, ln.Addr().String(), Config{})
	for range 4 {
		if _, err := c.Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AwaitDisconnects(within(t, time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a client: %v", err)
	}
	c.Close()
	if err := s.AwaitDisconnects(within(t, 10*time.Second)); err != nil {
		t.Errorf("after it closed: %v", err)
	}
}

func ExampleClient() {
	ln, err := TCP.Listen("127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	s := NewServer(ln, new(handler), Config{Secret: []byte("of this job")})
	go s.Serve()
	defer s.Close()

	c := NewClient(ln.Addr().String(), Config{Secret: []byte("of this job")})
	defer c.Close()
	var v wire.Value
	dst := make([]byte, 8)
	b, err := c.Call(context.Background(), &wire.Pull{Round: 4}, &v, dst)
	fmt.Println(b, v.N, err)
	// Output: [0 7 14 21] 4 <nil>
}
