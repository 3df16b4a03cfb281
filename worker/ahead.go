package worker

import (
	"context"
	"time"
)

// An AheadFeed is a Feed whose next batch may be asked for while a step computes: Fit then calls Next on a goroutine of its own, once the
// step's first gradient is there, and never beside another method of the feed. Ahead says whether the inputs that
// Next fills are not read any more by then, as those of GPUs are not, which have copied them. A batch that was brought too early, since
// workers came or went, is followed by Begin; its error, if it has one, is not told.
type AheadFeed interface {
	Feed
	Ahead() bool
}

// A lookahead brings the next batch while a step computes.
type lookahead struct {
	feed  Feed        // nil: this feed is not asked ahead
	came  chan coming // of the batch under way
	under bool        // Next is being called
	held  *coming     // a batch that came and no step has had yet
}

// A coming is what Next brought.
type coming struct {
	counts []int
	err    error
}

func newLookahead(feed Feed) *lookahead {
	l := &lookahead{came: make(chan coming, 1)}
	if a, ok := feed.(AheadFeed); ok && a.Ahead() {
		l.feed = feed
	}
	return l
}

// begin asks for the batch after that of the step which computes. end follows, on the same goroutine as take and drop.
func (l *lookahead) begin(ctx context.Context) {
	if l.feed == nil || l.under {
		return
	}
	l.under = true
	go func() {
		counts, err := l.feed.Next(ctx)
		l.came <- coming{counts, err}
	}()
}

// end waits until the feed is left alone, and returns how long that took.
func (l *lookahead) end() time.Duration {
	if !l.under {
		return 0
	}
	begin := time.Now()
	c := <-l.came
	l.held, l.under = &c, false
	return time.Since(begin)
}

// take returns the batch that end brought, once.
func (l *lookahead) take() (c coming, ok bool) {
	if l.held == nil {
		return c, false
	}
	c, l.held = *l.held, nil
	return c, true
}

// drop forgets it: the feed begins anew.
func (l *lookahead) drop() { l.held = nil }
