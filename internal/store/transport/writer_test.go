package transport

import (
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
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

// A system call costs several times what a small frame does otherwise, so frames of senders that
// are ready to run share one.
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
	w := newFrameWriter(conn, dead, false, traffic{})
	var all sync.WaitGroup
	all.Go(func() { w.run(func(err error) { t.Error(err) }) })
	start := make(chan struct{})
	for i := range senders {
		all.Go(func() {
			<-start
			if taken, err := w.writeSmall(uint32(i), message, 0, nil); !taken || err != nil {
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

// A call whose whole answer has come is answered, also when the write that its frame shared with
// others fails after it.
func TestAnAnswerCountsThoughTheSharedWriteFails(t *testing.T) {
	ours, theirs := net.Pipe()
	cc := newClientConn("peer", ours, traffic{})
	go func() { cc.kill(cc.read()) }()
	<-cc.w.token
	payload := make([]byte, 100_000)
	errs := make([]error, 2)
	done := make([]chan struct{}, 2)
	for i := range 2 {
		done[i] = make(chan struct{})
		go func() {
			defer close(done[i])
			k := newCall()
			k.answer = &wire.Ack{}
			id, _ := cc.register(k)
			m := &wire.Push{Origin: wire.Origin{Key: uint64(i)}}
			if errs[i] = cc.send(t.Context(), id, k, m, len(payload), [][]byte{payload}); errs[i] == nil {
				_, errs[i] = cc.wait(t.Context(), id, k)
			}
		}()
		for { // in this order
			cc.w.mu.Lock()
			n := len(cc.w.queue)
			cc.w.mu.Unlock()
			if n > i {
				break
			}
			runtime.Gosched()
		}
	}
	cc.w.token <- struct{}{}
	var header [wire.HeaderSize]byte
	io.ReadFull(theirs, header[:])
	h, err := wire.ParseHeader(header[:])
	if err != nil {
		t.Fatal(err)
	}
	io.CopyN(io.Discard, theirs, int64(h.Head+h.Payload))
	answer, _ := appendFrame(nil, h.ID, &wire.Ack{}, 0)
	theirs.Write(answer)
	for { // until the reader has it
		cc.mu.Lock()
		n := cc.frames
		cc.mu.Unlock()
		if n == 1 {
			break
		}
		runtime.Gosched()
	}
	theirs.Close()
	<-done[0]
	<-done[1]
	if errs[0] != nil {
		t.Errorf("the answered call: got error %v (ErrConnection: %v), want nil", errs[0], errors.Is(errs[0], ErrConnection))
	}
	if !errors.Is(errs[1], ErrConnection) {
		t.Errorf("the other call: got error %v, want %v", errs[1], ErrConnection)
	}
}

// Large frames that wait for one connection go lowest order first, those of one order as they came.
func TestLargeFramesGoInOrder(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	w := newFrameWriter(ours, make(chan struct{}), false, traffic{})
	<-w.token
	var all sync.WaitGroup
	payload := make([]byte, vectorBytes/2+1) // one in each write
	for id, order := range []uint64{5, 1, 3, 1, 0} {
		all.Go(func() {
			if _, err := w.writeLarge(t.Context(), uint32(id), &wire.Ack{}, order, len(payload), [][]byte{payload}); err != nil {
				t.Errorf("frame %d: %v", id, err)
			}
		})
		for queued := 0; queued <= id; runtime.Gosched() {
			w.mu.Lock()
			queued = len(w.queue)
			w.mu.Unlock()
		}
	}
	w.token <- struct{}{}
	for i, want := range []uint32{4, 1, 3, 2, 0} {
		var header [wire.HeaderSize]byte
		if _, err := io.ReadFull(theirs, header[:]); err != nil {
			t.Fatal(err)
		}
		h, err := wire.ParseHeader(header[:])
		if err != nil || h.ID != want {
			t.Errorf("frame at place %d: got number %d and error %v, want %d", i, h.ID, err, want)
		}
		if _, err := io.CopyN(io.Discard, theirs, int64(h.Head+h.Payload)); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
}
