package transport

import (
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/wire"
)

// countingConn counts what is written to it and how often.
type countingConn struct {
	net.Conn
	mu     sync.Mutex
	writes int
	bytes  int
	want   int
	done   chan struct{} // closed at want bytes
}

func (c *countingConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	c.bytes += len(b)
	if c.bytes == c.want {
		close(c.done)
	}
	return len(b), nil
}

// A system call costs several times what a small frame does otherwise, so frames of senders that are ready to run share one.
func TestSmallFramesOfManySendersShareAWrite(t *testing.T) {
	const senders = 48
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	message := &wire.Ack{Generation: 1}
	frame, err := appendFrame(nil, 1, message, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn := &countingConn{want: senders * len(frame), done: make(chan struct{})}
	dead := make(chan struct{})
	w := newFrameWriter(conn, dead, false)
	var all sync.WaitGroup
	all.Go(func() { w.run(func(err error) { t.Error(err) }) })
	start := make(chan struct{})
	for i := range senders {
		all.Go(func() {
			<-start
			if taken, err := w.small(uint32(i), message, 0, nil); !taken || err != nil {
				t.Errorf("sender %d: got taken %v and error %v, want true and none", i, taken, err)
			}
		})
	}
	close(start)
	select {
	case <-conn.done:
	case <-time.After(10 * time.Second):
		conn.mu.Lock()
		t.Errorf("got no more than %d bytes, want %d", conn.bytes, conn.want)
		conn.mu.Unlock()
	}
	close(dead)
	all.Wait()
	if conn.writes > senders/4 {
		t.Errorf("got %d writes for %d frames of senders that were all ready, want a few", conn.writes, senders)
	}
}
