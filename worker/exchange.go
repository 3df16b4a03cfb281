package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/paragon-train/paragon/kvstore"
)

// exchange pushes final gradients and pulls new values in the background, in one round trip each.
//
// Each parameter has its own goroutine: a gradient is sent at once however many others wait for
// other workers, so workers that finish their layers in different orders cannot block each other.
// Gradients are sent in buckets, so that small ones share network messages. Where several wait for
// one connection, the store sends the keys that were initialised first, which are those of the
// first layers.
type exchange struct {
	pusher kvstore.Pusher // of the step; replaced while nothing is under way
	keys   []string
	grads  [][][]float32 // by parameter, by device
	outs   [][][]float32 // by parameter, by device
	// pulled is called once the new value of parameter i is there, before wait(i) returns; from
	// several goroutines.
	pulled func(i int) error
	begin  []chan struct{} // by parameter: it was submitted
	total  int             // bytes of a step's gradients

	mu      sync.Mutex // guards all below
	changed *sync.Cond // pending, left, err or closed changed
	pending []bool     // parameter i was submitted and its new value is not there yet
	left    int        // parameters pending
	bucket  []int      // parameters submitted and not sent yet
	bytes   int        // of the bucket's gradients
	rest    int        // parameters that are still to be submitted in this step
	coming  int        // and the bytes of their gradients
	err     error
	closed  bool

	cancel  context.CancelFunc // of the goroutines' context
	running sync.WaitGroup
}

// newExchange starts the goroutines. Their requests last until close: they have ctx's values but
// not its cancellation, since a step's requests continue when the step is done.
func newExchange(ctx context.Context, pusher kvstore.Pusher, keys []string, grads, outs [][][]float32, pulled func(i int) error) *exchange {
	e := &exchange{pusher: pusher, keys: keys, grads: grads, outs: outs, pulled: pulled,
		begin: make([]chan struct{}, len(keys)), pending: make([]bool, len(keys))}
	e.changed = sync.NewCond(&e.mu)
	ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for i := range keys {
		e.total += 4 * len(grads[i][0])
		e.begin[i] = make(chan struct{}, 1)
		e.running.Go(func() { e.run(ctx, i) })
	}
	return e
}

// bucketBytes is the size of a bucket: half a millisecond of copying within a host, a thirtieth of
// a second on a link of 1 Gbit/s. Towards the end of a step smaller buckets are sent, of half of
// what is left and at least leastBytes, since the next step waits for the last gradients, those of
// the first layers. GPUs deliver gradients in portions of the same size.
const (
	bucketBytes = 4 << 20
	leastBytes  = bucketBytes / 8
)

// submit adds parameter i, whose gradients are final and whose values may be overwritten until
// wait(i) returns. Its last round trip must have ended. The last parameter of a step sends the
// rest.
func (e *exchange) submit(i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rest == 0 {
		e.rest, e.coming = len(e.keys), e.total
	}
	n := 4 * len(e.grads[i][0])
	e.pending[i] = true
	e.left++
	e.bucket = append(e.bucket, i)
	e.bytes += n
	e.coming -= n
	e.rest--
	if e.bytes < bucketBytes && e.bytes < max(leastBytes, e.coming) && e.rest > 0 {
		return
	}
	slices.Sort(e.bucket)
	for _, i := range e.bucket {
		e.begin[i] <- struct{}{}
	}
	e.bucket, e.bytes = e.bucket[:0], 0
}

// wait returns when the new value of parameter i is there, or with the first error of the exchange
// or of ctx.
func (e *exchange) wait(ctx context.Context, i int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.until(ctx, func() bool { return !e.pending[i] })
}

// flush waits for all parameters submitted, and returns how long that took.
func (e *exchange) flush(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.until(ctx, func() bool { return e.left == 0 })
	return time.Since(begin), err
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
	case e.closed:
		return errors.New("worker: trainer is closed")
	case e.err != nil:
		return e.err
	case !done():
		return fmt.Errorf("worker: wait for the store with %d of %d parameters under way: %w", e.left, len(e.keys), context.Cause(ctx))
	}
	return nil
}

// wake makes all waiting goroutines check their conditions.
func (e *exchange) wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changed.Broadcast()
}

// close ends the goroutines and cancels their requests.
func (e *exchange) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.end(nil)
}

// end is close with an error, which all waiting calls return. When end returns no request writes to
// the values any more.
func (e *exchange) end(err error) {
	e.mu.Lock()
	if e.err == nil {
		e.err = err
	}
	e.changed.Broadcast()
	e.mu.Unlock()
	e.cancel()
	e.running.Wait()
}

// run does the round trips of parameter i.
func (e *exchange) run(ctx context.Context, i int) {
	for {
		select {
		case <-e.begin[i]:
		case <-ctx.Done():
			return
		}
		err := e.trip(ctx, i)
		e.mu.Lock()
		if err == nil {
			e.pending[i] = false
			e.left--
		} else if e.err == nil && !e.closed { // close cuts trips short
			e.err = err
		}
		e.changed.Broadcast()
		e.mu.Unlock()
	}
}

func (e *exchange) trip(ctx context.Context, i int) error {
	if err := e.pusher.PushPull(ctx, e.keys[i], e.grads[i], e.outs[i]); err != nil {
		return fmt.Errorf("worker: exchange %s: %w", e.keys[i], err)
	}
	return e.pulled(i)
}
