package kvstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An op is one call of a Store: requests to some peers, beside each other, that end together. It is the context of its
// requests, and may be run again and again without taking memory; two runs may not overlap.
type op struct {
	s     *store
	verb  string
	key   string
	round uint64
	calls []call
	own   bool // the store's, which no call of the program waits for: it goes on over a boundary

	left atomic.Int32
	wake chan struct{} // holds a value after left became 0 and after stop was closed, perhaps one too many
	mark mark          // the lookout's

	mu     sync.Mutex // guards the rest
	stop   chan struct{}
	cause  error
	waits  string // what the last unsuccessful attempt said
	waiter *call  // and whose it was
	after  []after
	lastID uint64 // of after
}

// after is a function to call when the op fails.
type after struct {
	id uint64
	f  func()
}

func newOp(s *store, verb, key string, calls int) *op {
	o := &op{s: s, verb: verb, key: key, calls: make([]call, calls), wake: make(chan struct{}, 1), stop: make(chan struct{})}
	for i := range o.calls {
		o.calls[i].op = o
		o.calls[i].started.Done = o.calls[i].answered
		o.calls[i].shard = -1
	}
	return o
}

// run sends all requests and waits for all of them: until they are answered, one fails, ctx ends, the store's timeout is
// over, or the job ends.
func (o *op) run(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return o.wrap(err)
	}
	s := o.s
	if err := s.enter(o.own); err != nil {
		return o.wrap(err)
	}
	defer s.leave(o.own)
	o.reset()
	if len(o.calls) == 0 {
		return nil
	}
	o.left.Store(int32(len(o.calls)))
	if s.inline {
		for i := range o.calls {
			o.calls[i].run()
		}
		return o.result()
	}
	watched := s.lookout.add(o, ctx)
	for i := range o.calls {
		if c := &o.calls[i]; !c.start() {
			s.crew.do(c)
		}
	}
	if watched || ctx.Done() == nil {
		o.wait()
	} else {
		o.waitBesides(ctx)
	}
	s.lookout.remove(o)
	return o.result()
}

// wait returns when all requests have ended. Somebody else watches the context. A goroutine that waits for one thing alone costs half of
// one that waits for three.
func (o *op) wait() {
	for o.left.Load() != 0 {
		<-o.wake
		if o.left.Load() != 0 && o.Err() != nil {
			o.finish()
			return
		}
	}
}

// waitBesides is wait that watches ctx itself.
func (o *op) waitBesides(ctx context.Context) {
	for o.left.Load() != 0 {
		select {
		case <-o.wake:
		case <-ctx.Done():
			o.ended(ctx)
		}
		if o.left.Load() != 0 && o.Err() != nil {
			o.finish()
			return
		}
	}
}

// ended fails the op since its context has ended.
func (o *op) ended(ctx context.Context) {
	o.fail(o.wrap(o.waitedFor(ctx.Err(), o.s.lookout.now()-o.mark.began)))
}

// finish waits for the requests of an op that has failed.
func (o *op) finish() {
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

// tell wakes who waits for the op.
func (o *op) tell() {
	select {
	case o.wake <- struct{}{}:
	default: // a value is there, and left and cause are looked at after it was taken
	}
}

// readGrace is how long an answer may take that is just being read when its op ends, before its connection does.
const readGrace = 100 * time.Millisecond

// reset makes the op ready for its next run. While none is under way nobody else writes to the op.
func (o *op) reset() {
	if o.cause == nil && o.waiter == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause != nil {
		o.cause, o.stop = nil, make(chan struct{})
	}
	o.waits, o.waiter = "", nil
}

// fail ends all requests of the op; the first cause stays.
func (o *op) fail(cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause == nil {
		o.cause = cause
		close(o.stop)
		o.tell()
		for _, a := range o.after {
			go a.f()
		}
		o.after = o.after[:0]
	}
}

// result is how a run ended that has.
func (o *op) result() error { return o.cause }

// note keeps what an attempt said that will be repeated.
func (o *op) note(c *call, err error) {
	text := err.Error()
	var r *refused
	if errors.As(err, &r) && r.refusal.Text != "" {
		text = r.refusal.Text
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waits, o.waiter = text, c
}

// waiting says whom the op waits for.
func (o *op) waiting() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waiter == nil {
		for i := range o.calls {
			return "no answer yet from " + o.calls[i].peer()
		}
		return ""
	}
	return o.waiter.peer() + ": " + o.waits
}

func (o *op) waitedFor(cause error, waited time.Duration) error {
	return fmt.Errorf("%w: waited %.1f s; %s", cause, waited.Seconds(), o.waiting())
}

func (o *op) wrap(err error) error {
	return &ShardError{Verb: o.verb, Key: o.key, Shard: -1, Round: o.round, Err: err}
}

// log writes a line about a long wait, for one op at a time of those that wait together.
func (o *op) log(waited time.Duration) {
	s := o.s
	now := int64(s.lookout.now())
	last := s.noted.Load()
	if now-last < int64(s.noteEvery)*9/10 || !s.noted.CompareAndSwap(last, now) {
		return
	}
	s.logger.Info("waiting", "call", o.verb, "key", o.key, "round", o.round, "seconds", int(waited.Seconds()), "for", o.waiting())
}

// An op is a context.Context for its requests: it ends when the op fails.

func (o *op) Deadline() (time.Time, bool) { return time.Time{}, false }
func (o *op) Value(any) any               { return nil }

func (o *op) Done() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stop
}

// AfterFunc lets context.AfterFunc and derived contexts do without a goroutine that waits for Done.
func (o *op) AfterFunc(f func()) (stop func() bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause != nil {
		go f()
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
