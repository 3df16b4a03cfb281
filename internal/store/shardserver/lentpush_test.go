//go:build linux

package shardserver

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/shm"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// A gradient that is lent takes no memory of the server while its worker waits. When the server
// stops that wait, the worker has its memory back and the gradient counts.
func TestAGradientCountsThoughItsWaitEndedBeforeTheRound(t *testing.T) {
	const n = 50_000
	r := newRig(t, 2)
	r.init(1, make([]float32, n)...)
	ln, err := transport.Auto.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ts := transport.NewServer(ln, r.s, transport.Config{Network: transport.Auto, Logger: slog.New(slog.DiscardHandler)})
	go ts.Serve()
	defer ts.Close()
	c := transport.NewClient(ln.Addr().String(), transport.Config{Network: transport.Auto, Connections: 1})
	defer c.Close()

	grad, out := shm.Float32s(n), shm.Float32s(n)
	if _, _, ok := shm.Find(bytesOf(grad)); !ok {
		t.Skip("no memory to share")
	}
	other := slices.Repeat([]float32{1}, n)
	taken := r.s.pool.Taken()
	lent, round := 0, uint64(0)
	for end := time.Now().Add(10 * time.Second); lent < 2; round++ { // the server gets the worker's blocks in the background
		if time.Now().After(end) {
			t.Fatal("no gradient was lent within 10 s")
		}
		for i := range grad {
			grad[i], out[i] = float32(i%5), -1
		}
		m, _ := push(0, 1, round, grad...)
		m.Answer, m.WaitMillis = true, 1
		var refusal *transport.Refusal
		if _, err := c.Call(t.Context(), m, &wire.Value{}, bytesOf(out), bytesOf(grad)); !errors.As(err, &refusal) || refusal.Code != wire.CodeTimeout {
			t.Fatalf("push without the other worker's: got %v, want a refusal: %v", err, wire.CodeTimeout)
		}
		clear(grad) // its call is over
		if got := r.s.pool.Taken() - taken; got < 4*n {
			t.Fatalf("%d bytes are held for a gradient whose wait is over, want %d", got, 4*n)
		}
		// The worker asks again, as after every timeout, and waits longer; what it has in
		// its memory now does not count.
		m.WaitMillis = 10_000
		done := make(chan error)
		go func() {
			_, err := c.Call(t.Context(), m, &wire.Value{}, bytesOf(out), bytesOf(grad))
			done <- err
		}()
		r.must(push(1, 1, round, other...))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		for i := range out {
			if out[i] != float32(i%5)+1 {
				t.Fatalf("round %d: value %d is %v, want %v", round, i, out[i], i%5+1)
			}
		}
		m, _ = push(0, 1, round+1, grad...) // a third round in which both wait
		round++
		m.Answer = true
		go func() {
			_, err := c.Call(t.Context(), m, &wire.Value{}, bytesOf(out), bytesOf(grad))
			done <- err
		}()
		e := r.s.entries[shardID{1, 0}]
		for late := e.shard.Laggards(wantAfter(m)); len(late) != 1; late = e.shard.Laggards(wantAfter(m)) {
			time.Sleep(time.Microsecond)
		}
		if r.s.pool.Taken() == taken {
			lent++
		}
		r.must(push(1, 1, round, other...))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	ts.Close() // calls are finished after their answers are written
	r.wantTaken(taken)
}
