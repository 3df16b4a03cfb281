//go:build unix

package transport_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// steady is a Handler that keeps its memory: payloads go into one of its buffers and come out of
// another.
type steady struct {
	free chan []byte
	out  []byte
}

func newSteady() *steady {
	return &steady{free: make(chan []byte, 64), out: make([]byte, 8<<20)}
}

func (h *steady) Buffer(r *Request, n int) ([]byte, error) {
	select {
	case b := <-h.free:
		return b[:n], nil // all payloads of a benchmark have one size
	default:
		return make([]byte, n), nil
	}
}

func (h *steady) Drop(*Request) {}

var theAck = &wire.Ack{}

func (h *steady) Serve(_ context.Context, r *Request) (Response, error) {
	if r.Payload != nil {
		h.free <- r.Payload
		return Response{Message: theAck}, nil
	}
	var p wire.Pull
	if err := wire.DecodeHead(&p, r.Head); err != nil {
		return Response{}, err
	}
	return Response{Message: &wire.Value{N: p.Round}, Payload: [][]byte{h.out[:p.Round]}}, nil
}

// BenchmarkTransport measures pushes (payload up, a short answer) and pulls (payload down) over
// loopback TCP, both ends in this process, without and with TLS.
//
//	go test ./transport -run xxx -bench Transport -count 10 | benchstat -col /tls -
func BenchmarkTransport(b *testing.B) {
	for _, op := range []string{"push", "pull"} {
		for _, size := range []int{1 << 10, 64 << 10, 1 << 20, 4 << 20} {
			for _, lanes := range []struct{ conns, depth int }{{1, 1}, {1, 8}, {4, 4}, {4, 16}} {
				for _, secure := range []bool{false, true} {
					b.Run(fmt.Sprintf("op=%s/bytes=%d/conns=%d/inflight=%d/tls=%t", op, size, lanes.conns, lanes.depth, secure), func(b *testing.B) {
						c := benchClient(b, lanes.conns, secure)
						benchCalls(b, size, lanes.depth, func(buf []byte) error { return roundTrip(b, c, op, buf) })
					})
				}
			}
		}
	}
}

func benchClient(b *testing.B, conns int, secure bool) *Client {
	ln, err := TCP.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server, to := Config{}, Config{Connections: conns}
	if secure {
		server, to = secured(b, server, to)
	}
	s := NewServer(ln, newSteady(), server)
	go s.Serve()
	c := NewClient(ln.Addr().String(), to)
	b.Cleanup(func() { c.Close(); s.Close() })
	return c
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
	var wg sync.WaitGroup
	bufs := make([][]byte, depth)
	for i := range bufs {
		bufs[i] = make([]byte, size)
		if err := call(bufs[i]); err != nil { // warm: connections and buffers are there
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	used := cpuTime(b)
	defer func() { b.ReportMetric(float64(cpuTime(b)-used)/float64(b.N), "cpu-ns/op") }()
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

func roundTrip(b *testing.B, c *Client, op string, buf []byte) (err error) {
	if op == "push" {
		_, err = c.Call(b.Context(), &wire.Push{}, &wire.Ack{}, nil, buf)
	} else {
		_, err = c.Call(b.Context(), &wire.Pull{Round: uint64(len(buf))}, &wire.Value{}, buf)
	}
	return err
}

// BenchmarkLoopback is what the machine gives: one connection, one way, writes of the size. It
// compares the system's own congestion control with the one that TCP's Dial takes within a machine.
func BenchmarkLoopback(b *testing.B) {
	for _, dial := range []struct {
		name string
		dial func(addr string) (net.Conn, error)
	}{
		{"system", func(addr string) (net.Conn, error) { return net.Dial("tcp", addr) }},
		{"tuned", func(addr string) (net.Conn, error) { return TCP.Dial(b.Context(), addr) }},
	} {
		for _, size := range []int{64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("congestion=%s/bytes=%d", dial.name, size), func(b *testing.B) {
				ln, err := TCP.Listen("127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				defer ln.Close()
				done := make(chan struct{})
				go func() {
					defer close(done)
					nc, err := ln.Accept()
					if err != nil {
						return
					}
					defer nc.Close()
					buf := make([]byte, 1<<20)
					for {
						if _, err := nc.Read(buf); err != nil {
							return
						}
					}
				}()
				nc, err := dial.dial(ln.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				buf := make([]byte, size)
				b.SetBytes(int64(size))
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

// BenchmarkPlainTLS is what package tls gives a program that does nothing else: one way, writes of
// 1 MB, both ends in this process.
func BenchmarkPlainTLS(b *testing.B) {
	server, client := secured(b, Config{}, Config{})
	for _, conns := range []int{1, 2} {
		b.Run(fmt.Sprintf("conns=%d", conns), func(b *testing.B) {
			ln, err := TCP.Listen("127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer ln.Close()
			var readers, writers sync.WaitGroup
			for range conns {
				readers.Go(func() {
					nc, err := ln.Accept()
					if err != nil {
						return
					}
					defer nc.Close()
					c := tls.Server(nc, server.Identity.Server())
					for p := make([]byte, 1<<20); err == nil; {
						_, err = c.Read(p)
					}
				})
			}
			b.SetBytes(1 << 20)
			work := make(chan struct{})
			for range conns {
				nc, err := TCP.Dial(b.Context(), ln.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				writers.Go(func() {
					defer nc.Close()
					c := tls.Client(nc, client.Identity.Client())
					for p := make([]byte, 1<<20); ; {
						if _, more := <-work; !more {
							return
						}
						if _, err := c.Write(p); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			writers.Wait()
			readers.Wait()
		})
	}
}
