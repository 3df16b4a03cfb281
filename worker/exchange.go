package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// exchange pushes final gradients and pulls new values in the background, in one round trip each.
//
// Each parameter has its own goroutine: a gradient is sent at once however many others wait for
// other workers, so workers that finish their layers in different orders cannot block each other.
// Gradients are sent in buckets, so that small ones share network messages. Where several wait for
// one connection, the store sends the keys that were initialised first, which are those of the
// first layers.
//
// Invariant: a parameter is pending from its submit until its trip has returned without an error,
// and has at most one trip under way. Its gradients and values belong to the trip meanwhile.
type exchange struct {
	// pusher is that of the step. It is replaced while nothing is pending.
	pusher pushPuller
	keys   []string
	// grads and outs are by parameter and unit.
	grads, outs [][][]float32
	// pulled is called once the new value of parameter i is there, before wait(i) returns; from
	// several goroutines.
	pulled func(i int) error
	// clip, unless nil, clips the gradients of a step by their norm over all parameters. It is
	// called once all of them were submitted, on a goroutine of its own, and no value of the
	// step comes before it has reached the servers. flush waits for it, too.
	clip func(ctx context.Context) error
	// beginClip tells that goroutine to call it.
	beginClip chan struct{}
	// begin has a channel for each parameter, which tells its goroutine to send.
	begin []chan struct{}
	// total is the size of a step's gradients in bytes.
	total int

	// mu guards what is below. changed is signalled when pending, left, err or closed change.
	mu      sync.Mutex
	changed *sync.Cond
	// pending says of each parameter whether it was submitted and its new value is not there
	// yet, and left is the number of those, and of a clipping under way.
	pending []bool
	left    int
	bucket  bucket
	err     error
	closed  bool

	// cancel ends the goroutines' context, and running waits for them.
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// A pushPuller makes round trips, each with the weight of a step. A kvstore.Pusher is one.
type pushPuller interface {
	PushPull(ctx context.Context, key string, grads, outs [][]float32) error
}

// newExchange starts the goroutines. Their requests last until close: they have ctx's values but
// not its cancellation, since a step's requests continue when the step is done.
func newExchange(ctx context.Context, pusher pushPuller, keys []string, grads, outs [][][]float32, pulled func(i int) error, clip func(context.Context) error) *exchange {
	e := &exchange{pusher: pusher, keys: keys, grads: grads, outs: outs, pulled: pulled, clip: clip, beginClip: make(chan struct{}, 1),
		begin: make([]chan struct{}, len(keys)), pending: make([]bool, len(keys))}
	e.changed = sync.NewCond(&e.mu)
	ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for i := range keys {
		e.total += 4 * len(grads[i][0])
		e.begin[i] = make(chan struct{}, 1)
		e.running.Go(func() {
			e.run(ctx, e.begin[i], func() error { return e.trip(ctx, i) }, func() { e.pending[i] = false })
		})
	}
	if clip != nil {
		e.running.Go(func() { e.run(ctx, e.beginClip, func() error { return clip(ctx) }, func() {}) })
	}
	return e
}

// submit adds parameter i, whose gradients are final and whose values may be overwritten until
// wait(i) returns. Its last round trip must have ended. The last parameter of a step sends the
// rest.
func (e *exchange) submit(i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pending[i] = true
	e.left++
	if !e.bucket.add(i, 4*len(e.grads[i][0]), len(e.keys), e.total) {
		return
	}
	for _, i := range e.bucket.take() {
		e.begin[i] <- struct{}{}
	}
	if e.clip != nil && e.bucket.rest == 0 {
		e.left++
		e.beginClip <- struct{}{}
	}
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

// run makes a trip each time that begin says so, and calls done, under mu, after one without an
// error. An error of one that close cut short is none.
func (e *exchange) run(ctx context.Context, begin <-chan struct{}, trip func() error, done func()) {
	for {
		select {
		case <-begin:
		case <-ctx.Done():
			return
		}
		err := trip()
		e.mu.Lock()
		if err == nil {
			done()
			e.left--
		} else if e.err == nil && !e.closed {
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
