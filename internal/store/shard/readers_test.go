package shard

import (
	"errors"
	"slices"
	"sync"
	"testing"
)

// newReaders returns the readers of a shard with a value.
func newReaders(cfg *Config, value ...float32) *readers {
	r := &readers{mu: &sync.Mutex{}, cfg: cfg}
	r.current = &Version{of: r, data: cfg.firstBuffer(value)}
	return r
}

func TestAVersionThatIsReadStaysAsItIs(t *testing.T) {
	cfg := denseConfig(2)
	r := newReaders(cfg, 1, 2)
	v := r.acquire()
	copy(r.writable(), []float32{3, 4})
	if got := v.Float32s(); !slices.Equal(got, []float32{1, 2}) {
		t.Errorf("the Version that is read: got %v, want [1 2]", got)
	}
	if got := r.current.Float32s(); !slices.Equal(got, []float32{3, 4}) {
		t.Errorf("the newest Version: got %v, want [3 4]", got)
	}
	before := cfg.Pool.Taken()
	v.Release()
	if got := before - cfg.Pool.Taken(); got != 8 {
		t.Errorf("its last reader frees %d bytes, want 8", got)
	}
}

func TestAVersionWithoutReadersChangesInPlace(t *testing.T) {
	r := newReaders(denseConfig(2), 1, 2)
	r.acquire().Release()
	before := r.current
	copy(r.writable(), []float32{3, 4})
	if r.current != before {
		t.Error("the value was copied, though no one reads it")
	}
}

// A wait ends once: with the value when progress allows it, or with the error of the shard, or
// because its node has left.
func TestEveryWaitEndsOnce(t *testing.T) {
	x := membershipOf(t, 0, 0)
	r := newReaders(denseConfig(1), 1)
	first, second, gone := r.wait(Want{Node: node(0), Round: 1}), r.wait(Want{Node: node(0), Round: 2}), r.wait(Want{Node: node(1), Round: 2})
	ended := func(w *Wait) bool { return len(w.done) == 1 }
	r.wake(nil, &progress{members: x, rounds: 1})
	if !ended(first) || ended(second) || ended(gone) {
		t.Errorf("after round 0: got waits over %v %v %v, want the first one alone", ended(first), ended(second), ended(gone))
	}
	r.expel([]*member{x.of(node(1))}, 2)
	if !ended(gone) || ended(second) {
		t.Errorf("after node %d has left: got its wait over: %v, the other: %v; want its alone", node(1), ended(gone), ended(second))
	}
	stop := errors.New("stop")
	r.wake(stop, &progress{members: x, rounds: 1})
	<-second.Done()
	if _, err := second.Result(); !errors.Is(err, stop) || len(r.waits) != 0 {
		t.Errorf("after the shard has ended: got %v and %d waits, want its error and none", err, len(r.waits))
	}
	<-first.Done()
	v, err := first.Result()
	if err != nil || v.readers != 1 {
		t.Fatalf("the first wait: got %v, %v, want the value", v, err)
	}
	v.Release()
	gone.Cancel()
	if r.current.readers != 0 {
		t.Errorf("got %d readers at the end, want none", r.current.readers)
	}
}
