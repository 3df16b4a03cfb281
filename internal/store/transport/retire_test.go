package transport_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
)

// dialed is a Client of one connection to s:7000, whose handler answers Barriers once open is
// closed and heartbeats never, with the number of connections that it has made and of those that
// are closed.
func dialed(t *testing.T, n *faultnet.Network) (c *Client, open chan struct{}, made, closed *atomic.Int32) {
	h, open := waiting()
	barrier := h.serve
	h.serve = func(ctx context.Context, r *Request) (Response, error) {
		if r.Kind == wire.KindHeartbeat {
			<-ctx.Done()
			return Response{}, ctx.Err()
		}
		return barrier(ctx, r)
	}
	ln, err := n.Host("s").Listen("s:7000")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, ln, h, Config{})
	made, closed = new(atomic.Int32), new(atomic.Int32)
	host := n.Host("c")
	c = client(t, "s:7000", Config{Connections: 1, Network: networkFunc(func(ctx context.Context, addr string) (net.Conn, error) {
		nc, err := host.Dial(ctx, addr)
		if err == nil {
			made.Add(1)
			nc = &countedConn{Conn: nc, closed: closed}
		}
		return nc, err
	})})
	return c, open, made, closed
}

type countedConn struct {
	net.Conn
	closed *atomic.Int32
	done   atomic.Bool
}

func (c *countedConn) Close() error {
	if !c.done.Swap(true) {
		c.closed.Add(1)
	}
	return c.Conn.Close()
}

// A call that runs out of time on a connection from which nothing comes retires it: new calls take
// another one. A call that may wait for long goes on waiting there, and gets its answer; with the
// last one the connection is closed.
func TestARetiredConnectionServesTheCallsThatWaitThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, open, made, closed := dialed(t, faultnet.New(1))
		patient := make(chan error, 1)
		go func() {
			_, err := c.Call(t.Context(), &wire.Barrier{}, &wire.Value{}, make([]byte, 4))
			patient <- err
		}()
		synctest.Wait()
		short := func() {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := c.Call(ctx, &wire.Heartbeat{}, &wire.Ack{}, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("a heartbeat without an answer: %v, want the deadline", err)
			}
		}
		short()
		if made.Load() != 1 || closed.Load() != 0 {
			t.Fatalf("got %d connections, %d of them closed, want 1 that stays open for the call that waits", made.Load(), closed.Load())
		}
		short() // over another one, which nobody else uses: it is closed at once
		if made.Load() != 2 || closed.Load() != 1 {
			t.Errorf("got %d connections, %d of them closed, want 2 and 1", made.Load(), closed.Load())
		}
		close(open)
		if err := <-patient; err != nil {
			t.Errorf("the call that waits on the retired connection: %v", err)
		}
		synctest.Wait()
		if closed.Load() != 2 {
			t.Errorf("%d connections are closed, want the retired one, too", closed.Load())
		}
	})
}

// A call that its caller gives up says nothing about the connection, and neither does one that runs
// out of time while answers come.
func TestAConnectionThatSpeaksIsNotRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, open, made, closed := dialed(t, faultnet.New(1))
		close(open)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := c.Call(ctx, &wire.Heartbeat{}, &wire.Ack{}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that is given up: %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		go func() {
			time.Sleep(time.Second)
			if _, err := c.Call(t.Context(), &wire.Barrier{}, &wire.Value{}, make([]byte, 4)); err != nil {
				t.Error(err)
			}
		}()
		if _, err := c.Call(ctx, &wire.Heartbeat{}, &wire.Ack{}, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call that runs out of time: %v", err)
		}
		if _, err := c.Call(t.Context(), &wire.Barrier{}, &wire.Value{}, make([]byte, 4)); err != nil {
			t.Error(err)
		}
		if made.Load() != 1 || closed.Load() != 0 {
			t.Errorf("got %d connections, %d of them closed, want 1 that stays", made.Load(), closed.Load())
		}
	})
}
