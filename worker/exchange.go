package worker

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/paragon-train/paragon/kvstore"
)

// exchange pushes final gradients and pulls new values in the background, earlier layers first.
//
// Two sets of goroutines work on two queues ordered by parameter index: pushers, whose requests end when the server holds
// the contribution, and pullers, whose requests end when the round closed. Pushes never wait behind pulls, so workers that
// push in different orders cannot block each other.
type exchange struct {
	store kvstore.Store
	keys  []string
	grads [][][]float32 // by parameter, by device
	outs  [][][]float32 // by parameter, by device
	// pulled is called once the new value of parameter i is there, before wait(i) returns; from several goroutines.
	pulled func(i int) error

	mu      sync.Mutex // guards all below
	changed *sync.Cond // pending, waiting, err or closed changed
	pushes  indexQueue
	pulls   indexQueue
	pending []bool // parameter i was handed in and its new value is not there yet
	left    int    // parameters pending
	pushing int    // parameters whose push has not ended
	pushEnd time.Time
	err     error
	closed  bool

	cancel  context.CancelFunc // of the goroutines' context
	running sync.WaitGroup
}

// Concurrency of the exchange. Two pushers keep a connection busy while one waits for its acknowledgement; more pulls than
// that wait for the slowest worker at no cost.
const (
	pushers = 4
	pullers = 8
)

// newExchange starts the goroutines. Their requests last until close: ctx gives them its values, not its end, as a step's
// requests go on when the step is done.
func newExchange(ctx context.Context, store kvstore.Store, keys []string, grads, outs [][][]float32, pulled func(i int) error) *exchange {
	e := &exchange{store: store, keys: keys, grads: grads, outs: outs, pulled: pulled, pending: make([]bool, len(keys))}
	e.changed = sync.NewCond(&e.mu)
	ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for range pushers {
		e.running.Go(func() { e.run(ctx, &e.pushes, e.push) })
	}
	for range pullers {
		e.running.Go(func() { e.run(ctx, &e.pulls, e.pull) })
	}
	return e
}

// submit hands in parameter i, whose gradients are final and whose values may be overwritten until wait(i) returns.
func (e *exchange) submit(i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pending[i] = true
	e.left++
	e.pushing++
	heap.Push(&e.pushes, i)
	e.changed.Broadcast()
}

// wait returns when the new value of parameter i is there, or with the first error of the exchange or of ctx.
func (e *exchange) wait(ctx context.Context, i int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.until(ctx, func() bool { return !e.pending[i] })
}

// flush waits for all parameters handed in. It returns how long pushes, and after them pulls, kept the caller.
func (e *exchange) flush(ctx context.Context) (push, pull time.Duration, err error) {
	begin := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	err = e.until(ctx, func() bool { return e.left == 0 })
	total := time.Since(begin)
	if e.pushEnd.After(begin) {
		push = e.pushEnd.Sub(begin)
	}
	return push, total - push, err
}

// until waits, under mu, until done says so, the exchange fails or is closed, or ctx ends.
func (e *exchange) until(ctx context.Context, done func() bool) error {
	if !done() {
		defer context.AfterFunc(ctx, e.wake)()
	}
	for !done() && e.err == nil && !e.closed && ctx.Err() == nil {
		e.changed.Wait()
	}
	switch {
	case e.err != nil:
		return e.err
	case e.closed:
		return errors.New("worker: trainer is closed")
	case !done():
		return fmt.Errorf("worker: wait for the store with %d of %d parameters under way: %w", e.left, len(e.keys), context.Cause(ctx))
	}
	return nil
}

// wake lets all that wait look again.
func (e *exchange) wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changed.Broadcast()
}

// close ends the goroutines; exchanges under way are cut short, those queued are dropped.
func (e *exchange) close() {
	e.mu.Lock()
	e.closed = true
	e.changed.Broadcast()
	e.mu.Unlock()
	e.cancel()
	e.running.Wait()
}

// run is one pusher or puller.
func (e *exchange) run(ctx context.Context, queue *indexQueue, work func(context.Context, int) error) {
	for {
		e.mu.Lock()
		for len(*queue) == 0 && !e.closed {
			e.changed.Wait()
		}
		if e.closed {
			e.mu.Unlock()
			return
		}
		i, failed := heap.Pop(queue).(int), e.err != nil
		e.mu.Unlock()
		if failed {
			continue
		}
		if err := work(ctx, i); err != nil {
			e.mu.Lock()
			if e.err == nil && !e.closed { // close cuts requests short
				e.err = err
			}
			e.changed.Broadcast()
			e.mu.Unlock()
		}
	}
}

func (e *exchange) push(ctx context.Context, i int) error {
	if err := e.store.Push(ctx, e.keys[i], e.grads[i]...); err != nil {
		return fmt.Errorf("worker: push gradient of %s: %w", e.keys[i], err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pushing--; e.pushing == 0 {
		e.pushEnd = time.Now()
	}
	heap.Push(&e.pulls, i)
	e.changed.Broadcast()
	return nil
}

func (e *exchange) pull(ctx context.Context, i int) error {
	if err := e.store.Pull(ctx, e.keys[i], e.outs[i]...); err != nil {
		return fmt.Errorf("worker: pull value of %s: %w", e.keys[i], err)
	}
	if err := e.pulled(i); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pending[i] = false
	e.left--
	e.changed.Broadcast()
	return nil
}

// indexQueue is a heap of parameter indices, lowest (earliest layer) first.
type indexQueue []int

func (q indexQueue) Len() int           { return len(q) }
func (q indexQueue) Less(i, j int) bool { return q[i] < q[j] }
func (q indexQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *indexQueue) Push(x any)        { *q = append(*q, x.(int)) }
func (q *indexQueue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}
