package kvstore

import (
	"context"
	"sync"
	"time"
)

// An opWatcher ends the waiting ops of a store when their timeout is over, their context ends, the
// job ends or the store closes, and logs long waits. One goroutine does so for all ops, because
// watching all this in each op costs more, and small ops come by the hundred thousand a second.
type opWatcher struct {
	env watcherEnv
	// base is the zero of the watcher's clock.
	base time.Time
	quit chan struct{}
	wg   sync.WaitGroup
	// wake holds a token when the goroutine is to look again.
	wake chan struct{}
	// ended ends, with the cause, when every op does.
	ended context.Context
	end   context.CancelCauseFunc

	// mu guards the fields below, and ops' watchEntry.
	mu sync.Mutex
	// first and last are the ends of the list of waiting ops, in the order in which they began.
	first, last *op
	// running says that the goroutine was started, and asleep that it has no timer set and must
	// be woken for a new op.
	running, asleep bool
	// noted is when a wait was last noted, on the watcher's clock.
	noted time.Duration
	// endReason is why every op ends at once; nil: ops may wait.
	endReason func() error

	// Most ops of a program share one context. The goroutine watches one context at a time: it
	// takes up that of two successive ops with the same context, and keeps it while ops wait
	// under it. An op with another context watches its own.
	watchedContext context.Context
	// contextDone is watchedContext's Done; nil: no context is watched.
	contextDone <-chan struct{}
	// watchedOps is how many waiting ops have watchedContext.
	watchedOps int
	// lastDone is the Done of the previous op's context.
	lastDone <-chan struct{}
}

// watcherEnv is what an opWatcher needs to know: how long ops may wait, and what ends them all.
type watcherEnv struct {
	// timeout bounds the time of an op; 0 or less: there is no bound.
	timeout time.Duration
	// noteEvery is the time between two log lines about a wait.
	noteEvery time.Duration
	// note writes such a line.
	note func(o *op, waited time.Duration)
	// jobEnded is closed when the job has ended for this worker; jobEndError says why.
	jobEnded    <-chan struct{}
	jobEndError func() error
	// closing is closed when the store closes.
	closing <-chan struct{}
}

// A watchEntry is an op's entry in the opWatcher's list.
type watchEntry struct {
	before, after *op
	// began is when the op did, and due when it is checked next, on the watcher's clock.
	began, due time.Duration
	// watched says that the op's context is watchedContext.
	watched bool
}

func newOpWatcher(env watcherEnv) *opWatcher {
	l := &opWatcher{env: env, base: time.Now(), quit: make(chan struct{}), wake: make(chan struct{}, 1), noted: -env.noteEvery}
	l.ended, l.end = context.WithCancelCause(context.Background())
	return l
}

// context returns a context that ends with the job and with the store, for calls that are no ops. A
// goroutine for each of them would cost more than the call.
func (l *opWatcher) context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start()
	return l.ended
}

// start starts the goroutine, if it does not run. The caller holds mu.
func (l *opWatcher) start() {
	if !l.running {
		l.running = true
		l.wg.Go(l.run)
	}
}

// now is the time on the watcher's clock, which takes half as long to read as time.Now.
func (l *opWatcher) now() time.Duration { return time.Since(l.base) }

// add watches an op until remove. It reports whether the op's context is watched, too.
func (l *opWatcher) add(o *op, ctx context.Context) (watched bool) {
	now, ended := l.now(), ctx.Done()
	l.mu.Lock()
	defer l.mu.Unlock()
	began := now
	if o.resumed {
		began = o.since
	}
	o.watch = watchEntry{before: l.last, began: began, due: now + l.nextCheck(now-began)}
	if l.last != nil {
		l.last.watch.after = o
	} else {
		l.first = o
	}
	l.last = o
	if ended != nil {
		if ended != l.contextDone && ended == l.lastDone && l.watchedOps == 0 {
			// The goroutine is taken for asleep, so that it is woken and selects on the
			// new context.
			l.watchedContext, l.contextDone, l.asleep = ctx, ended, true
		}
		l.lastDone = ended
		if watched = ended == l.contextDone; watched {
			o.watch.watched = true
			l.watchedOps++
		}
	}
	switch {
	case l.endReason != nil:
		o.fail(o.wrap(l.endReason()))
	case !l.running:
		l.start()
	case l.asleep:
		l.asleep = false
		select {
		case l.wake <- struct{}{}:
		default: // the goroutine is about to look
		}
	}
	return watched
}

func (l *opWatcher) remove(o *op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &o.watch
	if m.before != nil {
		m.before.watch.after = m.after
	} else {
		l.first = m.after
	}
	if m.after != nil {
		m.after.watch.before = m.before
	} else {
		l.last = m.before
	}
	m.before, m.after = nil, nil
	if m.watched {
		m.watched = false
		l.watchedOps--
	}
}

func (l *opWatcher) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	done, closing := l.env.jobEnded, l.env.closing
	for {
		var due <-chan time.Time
		left, any, ended := l.check()
		if any {
			timer.Reset(left)
			due = timer.C
		}
		select {
		case <-due:
		case <-l.wake:
		case <-ended:
			l.endWatched(ended)
		case <-done:
			done = nil
			l.endAll(l.env.jobEndError)
		case <-closing:
			closing = nil
			l.endAll(func() error { return ErrClosed })
		case <-l.quit:
			return
		}
	}
}

// check times out or logs the ops that are due. It returns the time until the next op is due,
// whether there is one, and the Done of the watched context.
func (l *opWatcher) check() (left time.Duration, any bool, ended <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for o := l.first; o != nil; o = o.watch.after {
		m := &o.watch
		if m.due <= now {
			waited := now - m.began
			if timeout := l.env.timeout; timeout > 0 && waited >= timeout {
				o.fail(o.wrap(o.waitedFor(ErrUnavailable, waited)))
				// The op has failed, and its requests are ending.
				m.due = now + l.env.noteEvery
			} else {
				l.note(o, waited)
				m.due = now + l.nextCheck(waited)
			}
		}
		if d := m.due - now; !any || d < left {
			left, any = d, true
		}
	}
	l.asleep = !any
	return left, any, l.contextDone
}

// longest returns what the call of the program that has waited longest is, whom it waits for, and
// for how long; empty: none has waited for noteEvery.
func (l *opWatcher) longest() (call, whom string, waited time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	var longest *op
	for o := l.first; o != nil; o = o.watch.after {
		if w := now - o.watch.began; !o.background && w >= l.env.noteEvery && w > waited {
			longest, waited = o, w
		}
	}
	if longest == nil {
		return "", "", 0
	}
	return longest.name(), longest.waiting(), waited
}

// endWatched fails the ops under the watched context, which has ended.
func (l *opWatcher) endWatched(ended <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.contextDone != ended {
		// Another context is watched now.
		return
	}
	for o := l.first; o != nil; o = o.watch.after {
		if o.watch.watched {
			o.watch.watched = false
			o.contextEnded(l.watchedContext)
		}
	}
	l.watchedContext, l.contextDone, l.lastDone, l.watchedOps = nil, nil, nil, 0
}

// endAll ends all ops, and all that begin later, for a reason.
func (l *opWatcher) endAll(why func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.endReason == nil {
		l.endReason = why
	}
	l.end(why())
	for o := l.first; o != nil; o = o.watch.after {
		o.fail(o.wrap(why()))
	}
}

// close ends the goroutine. No op may be waiting.
func (l *opWatcher) close() {
	close(l.quit)
	l.wg.Wait()
	l.end(ErrClosed)
}

// nextCheck is the time until the next check of an op that has waited this long.
func (l *opWatcher) nextCheck(waited time.Duration) time.Duration {
	if l.env.timeout > 0 {
		return min(l.env.noteEvery, l.env.timeout-waited)
	}
	return l.env.noteEvery
}

// note notes a long wait, once in noteEvery for all ops that wait at the same time (9/10 of it,
// because timers are not exact). Only the goroutine calls it.
func (l *opWatcher) note(o *op, waited time.Duration) {
	now := l.now()
	if now-l.noted < l.env.noteEvery*9/10 {
		return
	}
	l.noted = now
	l.env.note(o, waited)
}
