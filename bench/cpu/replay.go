package main

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/compute/pool"
)

// costs are what a pool's threads spend on finding work.
type costs struct {
	// join is the time from the start of a run until a waiting thread has its first piece, and from
	// its last piece until Run returns.
	join time.Duration

	// handOut is the time of one piece's hand-out while other threads ask for theirs.
	handOut time.Duration
}

// replay is the time of one run of a pool of so many threads whose pieces take parts: pieces go in
// order to the thread that is free first, one hand-out after the other, since all threads count on
// one word of memory. The caller begins at once, the threads that wait after join and then one by
// one; if any of them took a piece, the run's end costs join again. One piece, or one thread, is a
// plain loop.
func (c costs) replay(parts []time.Duration, threads int) time.Duration {
	threads = min(threads, len(parts))
	if threads <= 1 {
		total := time.Duration(0)
		for _, d := range parts {
			total += d
		}
		return total
	}
	free := make([]time.Duration, threads)
	for i := 1; i < threads; i++ {
		free[i] = c.join + time.Duration(i-1)*c.handOut
	}

	// word is when the last piece was taken.
	word, end, helped := -c.handOut, time.Duration(0), false
	for _, d := range parts {
		i := slices.Index(free, slices.Min(free))
		word = max(free[i], word+c.handOut)
		free[i] = word + d
		end, helped = max(end, free[i]), helped || i > 0
	}
	if helped {
		end += c.join
	}
	return end
}

// measureCosts measures two threads. Each figure is the median of those where both were seen to run
// at the same time; where that never happened within a few seconds, as on one core, it is a guess.
func measureCosts() costs {
	p := pool.New(2)
	defer p.Close()
	return costs{
		join:    medianOr(time.Microsecond, joinOf(p)),
		handOut: medianOr(50*time.Nanosecond, handOutOf(p)),
	}
}

// medianOr is the median of fifty figures. One is taken after the other, for two seconds at most;
// false: it does not count.
func medianOr(guess time.Duration, one func() (time.Duration, bool)) time.Duration {
	var seen []time.Duration
	for begun := time.Now(); len(seen) < 50 && time.Since(begun) < 2*time.Second; {
		if d, ok := one(); ok {
			seen = append(seen, d)
		}
	}
	if len(seen) == 0 {
		return guess
	}
	slices.Sort(seen)
	return seen[len(seen)/2]
}

// joinOf takes a figure of a thread that joins a run and is waited for: half of what a run of two
// busy threads takes more than one of them. It does not count if one thread did both pieces, or
// waited for a core.
func joinOf(p *pool.Pool) func() (time.Duration, bool) {
	const busy = 20 * time.Microsecond
	spin := func(int) {
		for begun := time.Now(); time.Since(begun) < busy; {
		}
	}
	return func() (time.Duration, bool) {
		begun := time.Now()
		p.Run(2, spin)
		d := time.Since(begun) - busy
		return max(d, 0) / 2, d < busy/2
	}
}

// handOutOf takes a figure of a piece's hand-out: two threads count on one word, each pieces times.
// It counts if they did so together for more than four fifths of the time.
func handOutOf(p *pool.Pool) func() (time.Duration, bool) {
	const pieces = 1 << 14
	var word, began atomic.Int64
	var from, to [2]time.Time
	count := func(i int) {
		for began.Add(1); began.Load() < 2; {
			runtime.Gosched()
		}
		from[i] = time.Now()
		for range pieces {
			word.Add(1)
		}
		to[i] = time.Now()
	}
	return func() (time.Duration, bool) {
		began.Store(0)
		p.Run(2, count)
		begun, ended := from[0], to[0]
		late, early := from[1], to[1]
		if late.Before(begun) {
			begun, late = late, begun
		}
		if ended.Before(early) {
			ended, early = early, ended
		}
		all := ended.Sub(begun)
		return all / (2 * pieces), 10*early.Sub(late) > 8*all
	}
}
