package worker

import (
	"context"
	"time"

	"github.com/paragon-train/paragon/data"
)

// An AheadFeed is a Feed whose next batch may be prefetched while a step computes: Fit then calls
// Next on another goroutine, once the step's first gradient is there, and never together with
// another method of the feed. Ahead reports whether the inputs that Next fills are no longer read
// by then, which is so for GPUs, which have copied them. If the membership changes, a batch that
// was prefetched is dropped with its error, and Begin follows.
type AheadFeed interface {
	Feed
	Ahead() bool
}

// A prefetch gets the next batch while a step computes.
type prefetch struct {
	// feed is nil where it is not prefetched.
	feed Feed
	// under says that Next is being called, and came has its result.
	under bool
	came  chan nextBatch
	// held is a batch that came and that no step has had yet.
	held *nextBatch
}

// A nextBatch is the result of Next.
type nextBatch struct {
	counts []int
	err    error
	bad    []*data.BadExampleError
}

// examples is how many count, on all devices.
func (b *nextBatch) examples() int {
	n := 0
	for _, count := range b.counts {
		n += count
	}
	return n
}

// nextOf calls Next of a feed.
func nextOf(ctx context.Context, feed Feed) (b nextBatch) {
	if b.counts, b.err = feed.Next(ctx); b.err != nil {
		b.err = finalIfDamaged(b.err)
		return b
	}
	if f, ok := feed.(BadExampleFeed); ok {
		b.bad = f.TakeBad()
	}
	return b
}

func newPrefetch(feed Feed) *prefetch {
	l := &prefetch{came: make(chan nextBatch, 1)}
	if a, ok := feed.(AheadFeed); ok && a.Ahead() {
		l.feed = feed
	}
	return l
}

// begin starts to get the batch after that of the current step. end follows, on the same goroutine
// as take and drop.
func (l *prefetch) begin(ctx context.Context) {
	if l.feed == nil || l.under {
		return
	}
	l.under = true
	go func() {
		l.came <- nextOf(ctx, l.feed)
	}()
}

// end waits until Next has returned, and returns how long that took.
func (l *prefetch) end() time.Duration {
	if !l.under {
		return 0
	}
	begin := time.Now()
	c := <-l.came
	l.held, l.under = &c, false
	return time.Since(begin)
}

// take returns the batch that was prefetched, once.
func (l *prefetch) take() (c nextBatch, ok bool) {
	if l.held == nil {
		return c, false
	}
	c, l.held = *l.held, nil
	return c, true
}

// drop forgets it: Begin of the feed follows.
func (l *prefetch) drop() { l.held = nil }
