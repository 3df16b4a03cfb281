package cuda

import (
	"fmt"
	"sync"
	"time"
)

const (
	lookEvery  = 100 * time.Millisecond
	abortLimit = 10 * time.Second
)

// An exchangeWatch asks, while a step of a group is under way, whether something went wrong in the
// background, and breaks the exchanges off then: GPUs, and the thread that asks for exchanges,
// would wait for ever. Steps that are over before its first look cost a timer.
type exchangeWatch struct {
	g     *Group
	timer *time.Timer

	// mu is held while it looks. It guards what follows.
	mu sync.Mutex

	over bool

	// since is when a call that may not return began.
	since time.Time

	err error
}

// watchExchange begins to watch a step.
func (g *Group) watchExchange() *exchangeWatch {
	l := &exchangeWatch{g: g}
	if g.link.breaks() {
		l.mu.Lock()
		l.timer = time.AfterFunc(lookEvery, l.once)
		l.mu.Unlock()
	}
	return l
}

// once looks once, and looks again later unless the step is over or something was wrong. What it
// found stays in err; a caller that comes back from a call that was broken off finds it there.
func (l *exchangeWatch) once() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	limit := l.g.members[0].cfg.Timeout
	if l.err = l.g.link.err(); l.err == nil && !l.since.IsZero() && time.Since(l.since) > limit {
		l.err = fmt.Errorf("an all-reduce was started and has not returned for %v: %w", limit, errHangs)
	}
	if l.err == nil {
		l.timer.Reset(lookEvery)
		return
	}
	if err := within(abortLimit, l.g.link.abort); err != nil {
		l.err = fmt.Errorf("%w; abort the all-reduce: %w", l.err, err)
	}
}

// calls notes the time of a call that may not return, and ends that with false.
func (l *exchangeWatch) calls(begins bool) {
	if l.timer == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since = (time.Time{}); begins {
		l.since = time.Now()
	}
}

// saw is what went wrong, nil for nothing.
func (l *exchangeWatch) saw() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// end returns when it looks no more.
func (l *exchangeWatch) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
}
