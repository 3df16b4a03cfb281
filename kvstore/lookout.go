package kvstore

import (
	"context"
	"sync"
	"time"
)

// A lookout watches over the ops of a store that wait, so that an op need not watch the clock, the job and the store itself:
// small ones come by the hundred thousand each second. It has one goroutine, from the first op on.
type lookout struct {
	s    *store
	base time.Time // of its clock
	quit chan struct{}
	wg   sync.WaitGroup

	mu          sync.Mutex // guards the rest, and the marks of ops
	first, last *op        // those that wait, in the order in which they began
	running     bool       // the goroutine was started
	asleep      bool       // it waits for news
	news        chan struct{}
	over        func() error // why ops end at once; nil: they may wait

	// Most ops of a program share one context. The lookout watches that of the first of two ops in turn that had the same, as long as some
	// wait under it.
	context context.Context
	ended   <-chan struct{} // its Done; nil: no context is watched
	under   int             // ops that wait under it
	before  <-chan struct{} // Done of the op before
}

// A mark is an op's place with the lookout.
type mark struct {
	before, after *op
	began, due    time.Duration // on the lookout's clock; due: when it is looked at next
	watched       bool          // the op's context is the lookout's
}

func newLookout(s *store) *lookout {
	return &lookout{s: s, base: time.Now(), quit: make(chan struct{}), news: make(chan struct{}, 1)}
}

// now is the time on the lookout's clock, which takes half as long to read as time.Now.
func (l *lookout) now() time.Duration { return time.Since(l.base) }

// add puts an op that begins under watch, until remove. It says whether its context is watched, too.
func (l *lookout) add(o *op, ctx context.Context) (watched bool) {
	now, ended := l.now(), ctx.Done()
	l.mu.Lock()
	defer l.mu.Unlock()
	o.mark = mark{before: l.last, began: now, due: now + l.s.patience(0)}
	if l.last != nil {
		l.last.mark.after = o
	} else {
		l.first = o
	}
	l.last = o
	if ended != nil {
		if ended != l.ended && ended == l.before && l.under == 0 {
			l.context, l.ended, l.asleep = ctx, ended, true // so that the goroutine hears of it
		}
		l.before = ended
		if watched = ended == l.ended; watched {
			o.mark.watched = true
			l.under++
		}
	}
	switch {
	case l.over != nil:
		o.fail(o.wrap(l.over()))
	case !l.running:
		l.running = true
		l.wg.Go(l.run)
	case l.asleep:
		l.asleep = false
		select {
		case l.news <- struct{}{}:
		default: // it was told before and is about to look
		}
	}
	return watched
}

func (l *lookout) remove(o *op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &o.mark
	if m.before != nil {
		m.before.mark.after = m.after
	} else {
		l.first = m.after
	}
	if m.after != nil {
		m.after.mark.before = m.before
	} else {
		l.last = m.before
	}
	m.before, m.after = nil, nil
	if m.watched {
		m.watched = false
		l.under--
	}
}

func (l *lookout) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	done, closing := l.s.node.Done(), l.s.closing
	for {
		var due <-chan time.Time
		left, any, ended := l.look()
		if any {
			timer.Reset(left)
			due = timer.C
		}
		select {
		case <-due:
		case <-l.news:
		case <-ended:
			l.endWatched(ended)
		case <-done:
			done = nil
			l.end(l.s.over)
		case <-closing:
			closing = nil
			l.end(func() error { return ErrClosed })
		case <-l.quit:
			return
		}
	}
}

// look deals with the ops that are due, and returns the time until the next one is, and what tells the end of the context that is
// watched. Ops that begin meanwhile are due later.
func (l *lookout) look() (left time.Duration, any bool, ended <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for o := l.first; o != nil; o = o.mark.after {
		m := &o.mark
		if m.due <= now {
			waited := now - m.began
			if timeout := l.s.timeout; timeout > 0 && waited >= timeout {
				o.fail(o.wrap(o.waitedFor(ErrUnavailable, waited)))
				m.due = now + l.s.noteEvery // what is under way ends now
			} else {
				o.log(waited)
				m.due = now + l.s.patience(waited)
			}
		}
		if d := m.due - now; !any || d < left {
			left, any = d, true
		}
	}
	l.asleep = !any
	return left, any, l.ended
}

// endWatched fails the ops whose context is the one that is watched, which has ended.
func (l *lookout) endWatched(ended <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != ended {
		return // it is another one since
	}
	for o := l.first; o != nil; o = o.mark.after {
		if o.mark.watched {
			o.mark.watched = false
			o.ended(l.context)
		}
	}
	l.context, l.ended, l.before, l.under = nil, nil, nil, 0
}

// end ends all ops for a reason, and those that begin later.
func (l *lookout) end(why func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over == nil {
		l.over = why
	}
	for o := l.first; o != nil; o = o.mark.after {
		o.fail(o.wrap(why()))
	}
}

// close ends the goroutine, when no op waits any more.
func (l *lookout) close() {
	close(l.quit)
	l.wg.Wait()
}

// patience is the time from now to the next look at an op that has waited so long.
func (s *store) patience(waited time.Duration) time.Duration {
	if s.timeout > 0 {
		return min(s.noteEvery, s.timeout-waited)
	}
	return s.noteEvery
}
