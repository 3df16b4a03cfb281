//go:build unix

package fastrpc

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastrpc"

	"github.com/paragon-train/paragon/internal/store/transport"
)

// The calls of internal/store/transport's benchmark over github.com/valyala/fastrpc, as well as it
// can be used: no compression, payloads read straight into their buffers, each message ended by a
// trailer in a write of its own (without it a message larger than the write buffer is answered
// before it is registered, and its call hangs), connections from a Dial of our own.
// docs/design/0002 has what comes of it.

// The fast operation has the answer's size and the payload's size behind its number.
const fastOp = 9

type fastRequest struct {
	head    [fastOp]byte
	payload []byte
}

func (r *fastRequest) WriteRequest(bw *bufio.Writer) error {
	binary.LittleEndian.PutUint32(r.head[5:], uint32(len(r.payload)))
	bw.Write(r.head[:])
	bw.Write(r.payload)

	// This is the trailer.
	_, err := bw.Write(r.head[:1])
	return err
}

type fastResponse struct{ dst []byte }

func (r *fastResponse) ReadResponse(br *bufio.Reader) error {
	var n [4]byte
	if _, err := io.ReadFull(br, n[:]); err != nil {
		return err
	}
	size := int(binary.LittleEndian.Uint32(n[:]))
	if size > len(r.dst) {
		_, err := br.Discard(size)
		return err
	}
	_, err := io.ReadFull(br, r.dst[:size])
	return err
}

type fastContext struct {
	head   [fastOp]byte
	in     []byte
	out    []byte
	server *fastServer
}

func (c *fastContext) ConcurrencyLimitError(int)      { c.out = nil }
func (c *fastContext) Init(net.Conn, fasthttp.Logger) {}
func (c *fastContext) ReadRequest(br *bufio.Reader) error {
	if _, err := io.ReadFull(br, c.head[:]); err != nil {
		return err
	}
	n := int(binary.LittleEndian.Uint32(c.head[5:]))
	if cap(c.in) < n {
		c.in = make([]byte, n)
	}
	if _, err := io.ReadFull(br, c.in[:n]); err != nil {
		return err
	}
	_, err := io.ReadFull(br, c.head[:1])
	return err
}

func (c *fastContext) WriteResponse(bw *bufio.Writer) error {
	var n [4]byte
	binary.LittleEndian.PutUint32(n[:], uint32(len(c.out)))
	bw.Write(n[:])
	_, err := bw.Write(c.out)
	return err
}

// A deafContext reads nothing of its request.
type deafContext struct {
	fastContext
	begun, stuck chan struct{}
}

func (c *deafContext) ReadRequest(*bufio.Reader) error {
	select {
	case c.begun <- struct{}{}:
	default:
	}
	<-c.stuck
	return io.ErrUnexpectedEOF
}

type fastServer struct {
	fastrpc.Server
	ln  net.Listener
	out []byte
}

func newFastServer(tb testing.TB) *fastServer {
	ln, err := transport.TCP.Listen("127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &fastServer{ln: ln, out: make([]byte, 8<<20)}
	s.SniffHeader, s.CompressType = "bench", fastrpc.CompressNone
	s.Logger = log.New(io.Discard, "", 0)
	s.NewHandlerCtx = func() fastrpc.HandlerCtx { return &fastContext{server: s} }
	s.Handler = func(c fastrpc.HandlerCtx) fastrpc.HandlerCtx {
		f := c.(*fastContext)
		f.out = s.out[:binary.LittleEndian.Uint32(f.head[1:])]
		return c
	}
	tb.Cleanup(func() { ln.Close() })
	return s
}

func (s *fastServer) start() *fastServer {
	go s.Serve(s.ln)
	return s
}

// fastClient is a few fastrpc clients, each of one connection, whose connections can be closed.
type fastClient struct {
	clients []*fastrpc.Client
	mu      sync.Mutex
	next    int
	conns   []net.Conn
}

func newFastClient(tb testing.TB, addr string, conns int) *fastClient {
	f := new(fastClient)
	for range conns {
		f.clients = append(f.clients, &fastrpc.Client{
			SniffHeader: "bench", CompressType: fastrpc.CompressNone, Addr: addr,
			NewResponse: func() fastrpc.ResponseReader { return new(fastResponse) },
			Dial: func(addr string) (net.Conn, error) {
				nc, err := transport.TCP.Dial(tb.Context(), addr)
				f.mu.Lock()
				defer f.mu.Unlock()
				f.conns = append(f.conns, nc)
				return nc, err
			},
		})
	}
	tb.Cleanup(f.close)
	return f
}

func (f *fastClient) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, nc := range f.conns {
		if nc != nil {
			nc.Close()
		}
	}
}

func (f *fastClient) call(op string, buf []byte, limit time.Duration) error {
	f.mu.Lock()
	f.next++
	c := f.clients[f.next%len(f.clients)]
	f.mu.Unlock()
	rq, rs := new(fastRequest), new(fastResponse)
	if op == "push" {
		rq.payload = buf
	} else {
		binary.LittleEndian.PutUint32(rq.head[1:], uint32(len(buf)))
		rs.dst = buf
	}
	return c.DoDeadline(rq, rs, time.Now().Add(limit))
}

// BenchmarkFastrpc is BenchmarkTransport of internal/store/transport over fastrpc.
func BenchmarkFastrpc(b *testing.B) {
	for _, op := range []string{"push", "pull"} {
		for _, size := range []int{1 << 10, 64 << 10, 1 << 20, 4 << 20} {
			for _, lanes := range []struct{ conns, depth int }{{1, 1}, {1, 8}, {4, 4}, {4, 16}} {
				b.Run(fmt.Sprintf("op=%s/bytes=%d/conns=%d/inflight=%d", op, size, lanes.conns, lanes.depth), func(b *testing.B) {
					c := newFastClient(b, newFastServer(b).start().ln.Addr().String(), lanes.conns)
					benchCalls(b, size, lanes.depth, func(buf []byte) error { return c.call(op, buf, 10*time.Second) })
				})
			}
		}
	}
}

// benchCalls makes b.N calls from depth goroutines.
func benchCalls(b *testing.B, size, depth int, call func(buf []byte) error) {
	b.SetBytes(int64(size))
	b.ReportAllocs()
	work := make(chan struct{}, b.N)
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	bufs := make([][]byte, depth)
	for i := range bufs {
		bufs[i] = make([]byte, size)
		// The first call makes connections and buffers, and is not measured.
		if err := call(bufs[i]); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	used := cpuTime(b)
	defer func() { b.ReportMetric(float64(cpuTime(b)-used)/float64(b.N), "cpu-ns/op") }()
	var wg sync.WaitGroup
	for i := range bufs {
		wg.Go(func() {
			for range work {
				if err := call(bufs[i]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// cpuTime is what the process has used so far: of both ends, and hardly changed by others' load.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// What of fastrpc cannot be wrapped to keep the promises of internal/store/transport, each as a
// fact that can be run. If one of these fails after an update of fastrpc, docs/design/0002 should
// be read again.
func TestWhyNotFastrpc(t *testing.T) {
	if testing.Short() {
		t.Skip("shows by the clock what another library does: two seconds")
	}
	t.Run("a call to a peer that does not read outlives its deadline", func(t *testing.T) {
		s := newFastServer(t)
		stuck := make(chan struct{})
		defer close(stuck)
		begun := make(chan struct{}, 1)
		s.NewHandlerCtx = func() fastrpc.HandlerCtx { return &deafContext{begun: begun, stuck: stuck} }
		s.start()
		for deadline := 300 * time.Millisecond; ; deadline *= 2 {
			c := newFastClient(t, s.ln.Addr().String(), 1)
			done := make(chan error, 1)
			go func() { done <- c.call("push", make([]byte, 32<<20), deadline) }()
			select {
			case err := <-done:
				c.close()
				select {
				case <-begun:
				// The machine is too busy for it to be written at all before its deadline.
				default:
					if deadline < time.Minute {
						continue
					}
				}
				t.Errorf("the call ended by itself: %v", err)

			// It would never end.
			case <-time.After(5 * deadline):
				c.close()
				<-done
			}
			return
		}
	})
	t.Run("a call to nobody is told so at its deadline only", func(t *testing.T) {
		ln, err := transport.TCP.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ln.Close()
		start := time.Now()
		err = newFastClient(t, ln.Addr().String(), 1).call("push", nil, 400*time.Millisecond)
		if d := time.Since(start); err == nil || d < 400*time.Millisecond {
			t.Errorf("got %v after %v", err, d)
		}
	})
	t.Run("a client leaves two goroutines behind for ever", func(t *testing.T) {
		s := newFastServer(t).start()
		for range 5 {
			c := newFastClient(t, s.ln.Addr().String(), 1)
			if err := c.call("push", nil, 10*time.Second); err != nil {
				t.Fatal(err)
			}
			c.close()
		}
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if n := strings.Count(string(stacks), "created by github.com/valyala/fastrpc.(*Client).init"); n < 10 {
			t.Errorf("%d goroutines of 5 closed clients are left", n)
		}
	})
}
