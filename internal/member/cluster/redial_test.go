package cluster

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/store/transport"
)

// A lossyNetwork answers the dials whose number is in answers, after a while, and no other.
type lossyNetwork struct {
	transport.Network
	answers map[int64]error
	after   time.Duration
	dials   atomic.Int64
	// open is the number of open connections.
	open atomic.Int64
}

func (n *lossyNetwork) Dial(ctx context.Context, addr string) (net.Conn, error) {
	err, ok := n.answers[n.dials.Add(1)]
	answer := time.After(n.after)
	if !ok {
		answer = nil
	}
	select {
	case <-answer:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	n.open.Add(1)
	c, _ := net.Pipe()
	return countedConn{c, &n.open}, nil
}

type countedConn struct {
	net.Conn
	open *atomic.Int64
}

func (c countedConn) Close() error {
	c.open.Add(-1)
	return c.Conn.Close()
}

// A dial whose packets are lost does not keep a node from the scheduler for as long as the system
// waits before it sends them again.
func TestALostPacketDelaysADialByAQuarterOfASecond(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		name    string
		answers map[int64]error
		after   time.Duration
		takes   time.Duration
		err     error
		dials   int64
	}{
		{"the first is answered", map[int64]error{1: nil}, time.Millisecond, time.Millisecond, nil, 1},
		{"the first is refused", map[int64]error{1: refused}, time.Millisecond, time.Millisecond, refused, 1},
		{"the first is lost", map[int64]error{2: nil}, time.Millisecond, firstRedial + time.Millisecond, nil, 2},
		{"two are lost", map[int64]error{3: nil}, time.Millisecond, 3*firstRedial + time.Millisecond, nil, 3},
		{"the way is long", map[int64]error{1: nil, 2: nil, 3: nil}, 600 * time.Millisecond, 600 * time.Millisecond, nil, 2},
		{"nobody is there", nil, 0, 5 * time.Second, context.DeadlineExceeded, maxDials},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			n, begun := &lossyNetwork{answers: c.answers, after: c.after}, time.Now()
			conn, err := redialingNetwork{n}.Dial(ctx, "scheduler:1")
			if took := time.Since(begun); took != c.takes || !errors.Is(err, c.err) || n.dials.Load() != c.dials {
				t.Errorf("%s: got error %v after %v and %d dials, want %v after %v and %d", c.name, err, took, n.dials.Load(), c.err, c.takes, c.dials)
			}
			if conn != nil {
				conn.Close()
			}
			if left := n.open.Load(); left != 0 {
				t.Errorf("%s: %d connections are left", c.name, left)
			}
		})
	}
}
