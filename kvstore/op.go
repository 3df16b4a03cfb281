package kvstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// An op is one operation of a Store: concurrent requests to servers that succeed or fail together.
// It is the context of its requests. It may be run again and again without allocating; two runs may
// not overlap.
//
// Invariants of a run:
//
//   - run returns only when every call has ended, also after a failure: until then the calls may
//     read the caller's gradient and write to its outs.
//   - The first failure is the op's; it ends the other calls, whose errors are dropped.
//   - What calls leave behind (got, answers) is read after run alone, by the goroutine that ran it.
//
// The opWatcher locks its own mutex before an op's, never the other way round: an op that fails by
// itself tells nobody but its waiter.
type op struct {
	r     *requests
	verb  string
	key   string
	round uint64
	calls []call
	// background says that the store itself has started the op: no call of the program waits
	// for it, and it may run across a membership change.
	background bool

	// resumed says that the first attempts of this run were a part of another op, which began
	// at since on the watcher's clock. Their errors are in call.first.
	resumed bool
	since   time.Duration

	// left is how many calls have not ended.
	left atomic.Int32
	// wake holds a token once left is 0 or stop is closed; perhaps a stale one, so that waiters
	// look again.
	wake chan struct{}
	// watch is the opWatcher's.
	watch watchEntry

	// mu guards the fields below.
	mu    sync.Mutex
	stop  chan struct{}
	cause error
	// lastAnswer is the text of the last failed attempt, and lastAsked who answered it; empty:
	// there was none.
	lastAnswer, lastAsked string
	after                 []after
	// lastID is the ID of the newest entry in after.
	lastID uint64

	// ending counts the functions of after that run.
	ending sync.WaitGroup
}

// after is a function to call when the op fails.
type after struct {
	id uint64
	f  func()
}

func newOp(r *requests, verb, key string, calls int) *op {
	o := &op{r: r, verb: verb, key: key, calls: make([]call, calls), wake: make(chan struct{}, 1), stop: make(chan struct{})}
	for i := range o.calls {
		o.calls[i].op = o
		o.calls[i].started.Done = o.calls[i].answered
		o.calls[i].shard = -1
	}
	return o
}

// run sends all requests and waits for all of them: until they are answered, one fails, ctx ends,
// the store's timeout is over, or the job ends.
func (o *op) run(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return o.wrap(err)
	}
	r := o.r
	if !r.flight.enter(o.background) {
		return o.wrap(ErrClosed)
	}
	defer r.flight.leave(o.background)
	o.reset()
	if len(o.calls) == 0 {
		return nil
	}
	o.left.Store(int32(len(o.calls)))
	if r.atOnce() {
		for i := range o.calls {
			o.calls[i].run()
		}
		return o.result()
	}
	watched := r.watcher.add(o, ctx)
	watched = watched || ctx.Done() == nil
	for i := range o.calls {
		c := &o.calls[i]
		c.sent = false
		switch {
		case !o.resumed && c.start():
		case c.to.message != nil && watched && i == len(o.calls)-1:
			// This goroutine would only wait, so it makes the last call itself.
			c.run()
		default:
			r.pool.do(c)
		}
	}
	if watched {
		o.wait()
	} else {
		o.waitWatchingContext(ctx)
	}
	r.watcher.remove(o)
	return o.result()
}

// resume is run for an op with one call, whose first attempt was a part of another op: it began at
// since, on the watcher's clock, and ended with err. The op's timeout counts from since.
func (o *op) resume(ctx context.Context, since time.Duration, err error) error {
	c := &o.calls[0]
	c.begunElsewhere(err)
	o.resumed, o.since = true, since
	err = o.run(ctx)
	o.resumed, c.first = false, nil
	return err
}

// waited is how long the op has waited.
func (o *op) waited() time.Duration {
	return o.r.watcher.now() - o.watch.began
}

// wait returns when all requests have ended. It does not watch the context: a receive from one
// channel costs half of a select over three, and most contexts are watched by the opWatcher.
func (o *op) wait() {
	for o.left.Load() != 0 {
		<-o.wake
		if o.left.Load() != 0 && o.Err() != nil {
			o.abort()
			return
		}
	}
}

// waitWatchingContext is wait, and watches ctx.
func (o *op) waitWatchingContext(ctx context.Context) {
	for o.left.Load() != 0 {
		select {
		case <-o.wake:
		case <-ctx.Done():
			o.contextEnded(ctx)
		}
		if o.left.Load() != 0 && o.Err() != nil {
			o.abort()
			return
		}
	}
}

// contextEnded fails the op because its context has ended.
func (o *op) contextEnded(ctx context.Context) {
	o.fail(o.wrap(o.waitedFor(ctx.Err(), o.waited())))
}

// abort cancels the requests of an op that has failed, and waits for them.
func (o *op) abort() {
	for i := range o.calls {
		o.calls[i].giveUp()
	}
	timer := time.NewTimer(readGrace)
	defer timer.Stop()
	for o.left.Load() != 0 {
		select {
		case <-o.wake:
		case <-timer.C:
			for i := range o.calls {
				o.calls[i].cut()
			}
		}
	}
}

// wakeWaiter wakes the goroutine that waits for the op.
func (o *op) wakeWaiter() {
	select {
	case o.wake <- struct{}{}:
	default:
		// A token is there, and the waiter reads left and cause after it has taken that.
	}
}

// readGrace is how long an answer that is being read when its op ends may still take; then its
// connection is closed, which costs all other requests on it.
const readGrace = 100 * time.Millisecond

// reset makes the op ready for its next run. Between runs nothing else writes to the op.
func (o *op) reset() {
	if o.cause == nil && o.lastAsked == "" {
		return
	}
	// A derived context that asks for the error only now must find it: it panics otherwise.
	o.ending.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause != nil {
		o.cause, o.stop = nil, make(chan struct{})
	}
	o.lastAnswer, o.lastAsked = "", ""
}

// fail ends all requests of the op. The first cause is kept.
func (o *op) fail(cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause == nil {
		o.cause = cause
		close(o.stop)
		o.wakeWaiter()
		for _, a := range o.after {
			o.ending.Go(a.f)
		}
		o.after = o.after[:0]
	}
}

// result is the error of a run that has ended. It needs no lock: nothing writes to the op then.
func (o *op) result() error { return o.cause }

// noteAttempt keeps the error of an attempt that will be repeated, for waiting.
func (o *op) noteAttempt(c *call, err error) {
	text := err.Error()
	var r *refused
	var refusal *transport.Refusal
	switch {
	case errors.As(err, &r) && r.refusal.Text != "":
		text = r.refusal.Text
	case errors.As(err, &refusal) && refusal.Text != "":
		text = refusal.Text
	}
	who := c.asked()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lastAnswer, o.lastAsked = text, who
}

// waiting says whom the op waits for, and what was answered last.
func (o *op) waiting() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lastAsked == "" {
		for i := range o.calls {
			return "no answer yet from " + o.calls[i].asked()
		}
		return ""
	}
	return o.lastAsked + ": " + o.lastAnswer
}

func (o *op) waitedFor(cause error, waited time.Duration) error {
	return fmt.Errorf("%w: waited %.1f s; %s", cause, waited.Seconds(), o.waiting())
}

func (o *op) wrap(err error) error {
	return &ShardError{Verb: o.verb, Key: o.key, Shard: -1, Round: o.round, Err: err}
}

// name says what the op does: push-pull of key "w", round 3.
func (o *op) name() string {
	if o.key == "" {
		return o.verb
	}
	return fmt.Sprintf("%s of key %s, round %d", o.verb, wire.Shown(o.key), o.round)
}

// An op is a context.Context for its requests: it ends when the op fails.

var _ context.Context = (*op)(nil)

func (o *op) Deadline() (time.Time, bool) { return time.Time{}, false }
func (o *op) Value(any) any               { return nil }

func (o *op) Done() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stop
}

// AfterFunc lets context.AfterFunc and derived contexts do without a goroutine that waits for Done:
// package context looks for a method of this name. f runs on a goroutine of its own, as the package
// demands, and reset waits for it.
func (o *op) AfterFunc(f func()) (stop func() bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause != nil {
		o.ending.Go(f)
		return func() bool { return false }
	}
	o.lastID++
	id := o.lastID
	o.after = append(o.after, after{id, f})
	return func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		n := len(o.after)
		o.after = slices.DeleteFunc(o.after, func(a after) bool { return a.id == id })
		return len(o.after) < n
	}
}

func (o *op) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause != nil {
		return context.Canceled
	}
	return nil
}
