package kvstore

import (
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
}

// A mark is an op's place with the lookout.
type mark struct {
	before, after *op
	began, due    time.Duration // on the lookout's clock; due: when it is looked at next
}

func newLookout(s *store) *lookout {
	return &lookout{s: s, base: time.Now(), quit: make(chan struct{}), news: make(chan struct{}, 1)}
}

// now is the time on the lookout's clock, which takes half as long to read as time.Now.
func (l *lookout) now() time.Duration { return time.Since(l.base) }

// add puts an op that begins under watch, until remove.
func (l *lookout) add(o *op) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	o.mark = mark{before: l.last, began: now, due: now + l.s.patience(0)}
	if l.last != nil {
		l.last.mark.after = o
	} else {
		l.first = o
	}
	l.last = o
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
}

func (l *lookout) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	done, closing := l.s.node.Done(), l.s.closing
	for {
		var due <-chan time.Time
		if left, any := l.look(); any {
			timer.Reset(left)
			due = timer.C
		}
		select {
		case <-due:
		case <-l.news:
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

// look deals with the ops that are due, and returns the time until the next one is. Ops that begin meanwhile are due later.
func (l *lookout) look() (left time.Duration, any bool) {
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
	return left, any
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
