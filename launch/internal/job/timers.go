package job

import (
	"slices"
	"time"
)

// A timer is something that is due at a time.
type timer struct {
	at      time.Time
	serial  int
	due     due
	lasting bool // also when the job no longer changes
}

// due is what is done then.
type due interface{ run(c *core) }

// after lets something be done later, unless the job no longer changes by then.
func (c *core) after(d time.Duration, what due) { c.addTimer(d, what, false) }

func (c *core) addTimer(d time.Duration, what due, lasting bool) {
	c.serial++
	c.timers = append(c.timers, timer{c.now.Add(d), c.serial, what, lasting})
}

// next is when the core wants to be stepped again though nothing happens; zero: not at all.
func (c *core) next() time.Time {
	next := c.stageOver
	for _, t := range c.timers {
		if next.IsZero() || t.at.Before(next) {
			next = t.at
		}
	}
	return next
}

// runTimers does what is due, in its order.
func (c *core) runTimers() {
	for {
		first := -1
		for i, t := range c.timers {
			if !t.at.After(c.now) && (first < 0 || t.at.Before(c.timers[first].at)) {
				first = i
			}
		}
		if over := c.stageOver; !over.IsZero() && !over.After(c.now) && (first < 0 || over.Before(c.timers[first].at)) {
			c.stageOver = time.Time{}
			c.nextStage()
			continue
		}
		if first < 0 {
			return
		}
		t := c.timers[first]
		c.timers = slices.Delete(c.timers, first, first+1)
		t.due.run(c)
	}
}

// cancelPending ends all that would change the job.
func (c *core) cancelPending() {
	c.timers = slices.DeleteFunc(c.timers, func(t timer) bool { return !t.lasting })
	c.queue = nil
	const why = "the job is being stopped"
	for _, id := range sortedKeys(c.connections) {
		c.do(cancelCall{id, why})
	}
	for _, id := range sortedKeys(c.asked) {
		c.do(cancelAsk{id, why})
	}
	for _, process := range sortedKeys(c.launching) {
		c.do(cancelStart{process, why})
	}
	for _, n := range slices.Clone(c.arrivals) {
		c.dropArrival(n)
	}
	for _, name := range sortedKeys(c.accesses) {
		a := c.accesses[name]
		if a.waiting = nil; a.preparation != nil {
			c.cancelAccess(a, why)
		}
	}
}
